//! Copies by the CPU through a mapping of GPU memory, and by cuMemcpy beside them.

use super::{Direction, FigureKind};
use crate::model::{ProbeResult, Shares};

/// A way to copy that the sweep measures: columns of the table and a line of the chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Mapping,
    /// cuMemcpy with pinned memory.
    Pinned,
    /// cuMemcpy with pageable memory.
    Pageable,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Mapping, Self::Pinned, Self::Pageable];

    /// The first words of its names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mapping => "copy",
            Self::Pinned => "cuda.pinned",
            Self::Pageable => "cuda.pageable",
        }
    }

    /// The heading of a column; the first one names the way.
    pub fn heading(self, quantity: Quantity) -> &'static str {
        match (quantity, self) {
            (Quantity::Latency, Self::Mapping) => "mapped us",
            (Quantity::Latency, Self::Pinned) => "pinned us",
            (Quantity::Latency, Self::Pageable) => "pageable us",
            (Quantity::Bandwidth, _) => "GB/s",
            (Quantity::CpuTime, _) => "CPU us",
        }
    }

    /// The line in the chart, from 1, and its label. The mapping's second line is that from another NUMA node.
    pub fn line(self) -> (usize, &'static str) {
        match self {
            Self::Mapping => (1, "mapping"),
            Self::Pinned => (3, "cuMemcpy, pinned memory"),
            Self::Pageable => (4, "cuMemcpy, pageable memory"),
        }
    }

    /// Its columns.
    pub fn quantities(self) -> &'static [Quantity] {
        match self {
            Self::Mapping => &[Quantity::Latency, Quantity::Bandwidth, Quantity::CpuTime],
            Self::Pinned | Self::Pageable => &[Quantity::Latency, Quantity::CpuTime],
        }
    }

    pub fn latency(self, direction: Direction) -> String {
        format!("{}.{}.latency", self.name(), direction.accessed())
    }

    pub fn bandwidth(self, direction: Direction) -> String {
        format!("{}.{}.bandwidth", self.name(), direction.accessed())
    }

    /// Whether it should reach a share of the link: reads through a mapping never do, and CUDA copies pageable memory twice.
    pub fn fills_link(self, direction: Direction) -> bool {
        match self {
            Self::Mapping => direction == Direction::ToGpu,
            Self::Pinned => true,
            Self::Pageable => false,
        }
    }

    /// The share of the link below which it is slow.
    pub fn share(self, shares: &Shares) -> Option<f64> {
        match self {
            Self::Mapping => shares.mapping,
            Self::Pinned | Self::Pageable => shares.pci_express,
        }
    }
}

/// A figure of a way, for each size and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Latency,
    /// By the latency: what a program gets that waits for each copy.
    Bandwidth,
    CpuTime,
}

impl Quantity {
    /// Those by which the mapping and cuMemcpy with pinned memory are compared.
    pub const COSTS: [Self; 2] = [Self::Latency, Self::CpuTime];

    /// Of a result of a latency.
    pub fn of(self, result: &ProbeResult) -> Option<f64> {
        match self {
            Self::Latency => result.median,
            Self::Bandwidth => {
                let us = result.median.filter(|us| *us > 0.0)?;
                Some(result.bytes? as f64 / us / 1e3)
            }
            Self::CpuTime => result.cpu,
        }
    }

    /// The name of the size from which on cuMemcpy costs less.
    pub fn crossover(self, direction: Direction) -> String {
        let by = if self == Self::CpuTime { ".cpu" } else { "" };
        format!("crossover.{}{by}", direction.accessed())
    }

    /// What the cheaper one does.
    pub fn better(self) -> &'static str {
        if self == Self::CpuTime { "uses less CPU time" } else { "is faster" }
    }
}

pub const PIN: FigureKind = FigureKind::new("api.pin", "pin {size}");

/// The calls of a pin and a mapping, in their order.
pub const CALLS: [FigureKind; 5] = [
    PIN,
    FigureKind::new("api.map", "map {size}"),
    FigureKind::new("api.info", "info {size}"),
    FigureKind::new("api.unmap", "unmap {size}"),
    FigureKind::new("api.unpin", "unpin {size}"),
];

pub const ROUND_TRIP: FigureKind = FigureKind::new("ping-pong", "round trip with a kernel");
pub const DATA_ROUND_TRIP: FigureKind = FigureKind::new("ping-pong.data", "round trip with {size}");
pub const GPU_ROUND_TRIP: FigureKind =
    FigureKind::new("ping-pong.gpu-first", "round trip with a kernel, GPU first");
pub const GPU_DATA_ROUND_TRIP: FigureKind =
    FigureKind::new("ping-pong.gpu-first.data", "round trip with {size}, GPU first");

/// Round trips between the CPU and a kernel.
pub const ROUND_TRIPS: [FigureKind; 4] =
    [ROUND_TRIP, DATA_ROUND_TRIP, GPU_ROUND_TRIP, GPU_DATA_ROUND_TRIP];
