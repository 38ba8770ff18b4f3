//! Copies between host and GPU.

use super::Direction;

/// Parts, as results name one that cannot run.
pub const PINNED: &str = "host.pinned";
pub const LINKS: &str = "host.links";
pub const KERNELS: &str = "host.kernel";
pub const STAGED: &str = "host.staged";

pub const UNIFIED_ADDRESSING: &str = "host.unified-addressing";
/// The call of a copy from pageable memory.
pub const PAGEABLE_CALL: &str = "host.pageable.async";

/// Each is a column of the tables and a line of the chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostMemoryKind {
    /// CUDA copies it through its own pinned buffers.
    Pageable,
    Pinned,
    /// Pageable memory registered with cuMemHostRegister.
    Registered,
    WriteCombined,
}

impl HostMemoryKind {
    pub const ALL: [Self; 4] =
        [Self::Pageable, Self::Pinned, Self::Registered, Self::WriteCombined];

    /// Its part of a name, and its heading.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pageable => "pageable",
            Self::Pinned => "pinned",
            Self::Registered => "registered",
            Self::WriteCombined => "write-combined",
        }
    }

    /// The line in the chart, from 1.
    pub fn line(self) -> usize {
        match self {
            Self::Pinned => 1,
            Self::WriteCombined => 2,
            Self::Registered => 3,
            Self::Pageable => 4,
        }
    }

    /// The result of one that cannot be allocated.
    pub fn allocation(self) -> String {
        format!("host.{}", self.name())
    }

    pub fn latency(self, direction: Direction) -> String {
        format!("host.{}.{}.latency", self.name(), direction.copied())
    }

    pub fn bandwidth(self, direction: Direction) -> String {
        format!("host.{}.{}.bandwidth", self.name(), direction.copied())
    }

    /// Both directions at once, the sum.
    pub fn both(self) -> String {
        format!("host.{}.both.bandwidth", self.name())
    }

    /// One direction while the other is copied too.
    pub fn half_of_both(self, direction: Direction) -> String {
        format!("host.{}.both.{}.bandwidth", self.name(), direction.copied())
    }

    /// Whether both directions can run at once: the CPU copies pageable memory, one direction after the other.
    pub fn is_duplex(self) -> bool {
        self != Self::Pageable
    }
}

/// Through a second host buffer, without GPUDirect v1.
pub fn extra_copy(direction: Direction) -> String {
    format!("host.extra-copy.{}.bandwidth", direction.copied())
}

/// How the chunks of a message follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Staging {
    Serial,
    Overlapped,
}

impl Staging {
    pub const ALL: [Self; 2] = [Self::Serial, Self::Overlapped];

    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Overlapped => "overlapped",
        }
    }

    pub fn bandwidth(self, direction: Direction) -> String {
        format!("host.staged.{}.{}.bandwidth", direction.copied(), self.name())
    }
}

pub fn best_chunk(direction: Direction) -> String {
    format!("host.staged.{}.best-chunk", direction.copied())
}

/// A kernel on pinned host memory.
pub const KERNEL_LOAD: &str = "host.kernel.load.bandwidth";
pub const KERNEL_STORE: &str = "host.kernel.store.bandwidth";
pub const KERNEL_LATENCY: &str = "host.kernel.load.latency";
