//! Copies by the CPU through a mapping of GPU memory, and by cuMemcpy beside them.

use super::{Direction, FigureKind, latency};
use crate::model::{ProbeResult, Shares};

/// A way to copy that the sweep measures: columns of the table and a line of the chart.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The first words of its names.
    pub name: &'static str,
    /// What copies.
    pub backend: &'static str,
    /// The heading of its first column, which names it.
    pub heading: &'static str,
    /// The line in the chart, from 1, and its label.
    pub line: (usize, &'static str),
    /// Its columns.
    pub quantities: &'static [Quantity],
    /// What the link lets expect; `None` for copies that pass through other memory.
    pub limit: Option<Limit>,
}

/// The link limits a bandwidth.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// The share of the link below which it is slow.
    pub share: fn(&Shares) -> Option<f64>,
    /// The directions that reach the share.
    pub directions: &'static [Direction],
}

/// The chart's second line is that from another NUMA node.
pub const MAPPING: Way = Way {
    name: "copy",
    backend: "mapping",
    heading: "mapped us",
    line: (1, "mapping"),
    quantities: &[Quantity::Latency, Quantity::Bandwidth, Quantity::CpuTime],
    // Reads through a mapping never reach it.
    limit: Some(Limit { share: |shares| shares.mapping, directions: &[Direction::ToGpu] }),
};
pub const PINNED: Way = Way {
    name: "cuda.pinned",
    backend: "cuda",
    heading: "pinned us",
    line: (3, "cuMemcpy, pinned memory"),
    quantities: &[Quantity::Latency, Quantity::CpuTime],
    limit: Some(Limit { share: |shares| shares.pci_express, directions: &Direction::BOTH }),
};
/// CUDA copies pageable memory twice.
pub const PAGEABLE: Way = Way {
    name: "cuda.pageable",
    heading: "pageable us",
    line: (4, "cuMemcpy, pageable memory"),
    limit: None,
    ..PINNED
};

pub const WAYS: [Way; 3] = [MAPPING, PINNED, PAGEABLE];

impl Way {
    pub fn latency(self, direction: Direction) -> String {
        format!("{}.{}.latency", self.name, direction.accessed())
    }

    pub fn bandwidth(self, direction: Direction) -> String {
        format!("{}.{}.bandwidth", self.name, direction.accessed())
    }

    /// The name of the results that a column shows.
    pub fn result(self, quantity: Quantity, direction: Direction) -> String {
        match quantity {
            Quantity::Latency | Quantity::Bandwidth | Quantity::CpuTime => self.latency(direction),
        }
    }

    /// The heading of a column.
    pub fn heading(self, quantity: Quantity) -> &'static str {
        match quantity {
            Quantity::Latency => self.heading,
            Quantity::Bandwidth => "GB/s",
            Quantity::CpuTime => "CPU us",
        }
    }
}

impl Limit {
    /// The share that this direction must reach.
    pub fn share(self, direction: Direction, shares: &Shares) -> Option<f64> {
        (self.share)(shares).filter(|_| self.directions.contains(&direction))
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

    /// Of a result with the name that [`Way::result`] has for it.
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

pub const PIN: FigureKind = latency("api.pin", "pin {size}");
pub const MAP: FigureKind = latency("api.map", "map {size}");
pub const INFO: FigureKind = latency("api.info", "info {size}");
pub const UNMAP: FigureKind = latency("api.unmap", "unmap {size}");
pub const UNPIN: FigureKind = latency("api.unpin", "unpin {size}");

/// The calls of a pin and a mapping.
pub const CALLS: [FigureKind; 5] = [PIN, MAP, INFO, UNMAP, UNPIN];

pub const ROUND_TRIP: FigureKind = latency("ping-pong", "round trip with a kernel");
pub const DATA_ROUND_TRIP: FigureKind = latency("ping-pong.data", "round trip with {size}");
pub const GPU_ROUND_TRIP: FigureKind =
    latency("ping-pong.gpu-first", "round trip with a kernel, GPU first");
pub const GPU_DATA_ROUND_TRIP: FigureKind =
    latency("ping-pong.gpu-first.data", "round trip with {size}, GPU first");

/// Round trips between the CPU and a kernel.
pub const ROUND_TRIPS: [FigureKind; 4] =
    [ROUND_TRIP, DATA_ROUND_TRIP, GPU_ROUND_TRIP, GPU_DATA_ROUND_TRIP];
