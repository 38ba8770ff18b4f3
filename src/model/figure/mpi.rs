//! Messages between two ranks of MPI.

use serde::{Deserialize, Serialize};

/// Kind of the memory of a message: a column of the table and a line of the chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageMemory {
    Host,
    Gpu,
}

impl MessageMemory {
    pub const ALL: [Self; 2] = [Self::Host, Self::Gpu];

    /// In names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Gpu => "gpu",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Gpu => "GPU",
        }
    }

    /// The line in the chart, from 1.
    pub fn line(self) -> usize {
        match self {
            Self::Gpu => 1,
            Self::Host => 3,
        }
    }

    pub const fn latency(self) -> &'static str {
        match self {
            Self::Host => "mpi.host.latency",
            Self::Gpu => "mpi.gpu.latency",
        }
    }

    pub const fn bandwidth(self) -> &'static str {
        match self {
            Self::Host => "mpi.host.bandwidth",
            Self::Gpu => "mpi.gpu.bandwidth",
        }
    }
}
