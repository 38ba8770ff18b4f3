//! Messages between two ranks of MPI.

use serde::{Deserialize, Serialize};

use super::{FigureKind, bandwidth, latency, validated};

/// A message of GPU memory, and one of host memory, to the rank itself.
pub const GPU_TRIAL: &str = "mpi.cuda-aware";
pub const HOST_TRIAL: &str = "validate.mpi.self";

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

    /// Its verified bytes.
    pub fn validated(self) -> String {
        validated(format_args!("mpi.{}", self.name()))
    }

    pub const fn latency(self) -> FigureKind {
        match self {
            Self::Host => latency("mpi.host.latency", "host us").drawn(3, "host memory"),
            Self::Gpu => latency("mpi.gpu.latency", "GPU us").drawn(1, "GPU memory"),
        }
    }

    pub const fn bandwidth(self) -> FigureKind {
        match self {
            Self::Host => bandwidth("mpi.host.bandwidth", "host GB/s").drawn(3, "host memory"),
            Self::Gpu => bandwidth("mpi.gpu.bandwidth", "GPU GB/s").drawn(1, "GPU memory"),
        }
    }
}
