//! The curves of `gdr probe transfer`: ways from GPU memory to GPU memory over a NIC, and host memory to host memory as the ceiling.

use serde::{Deserialize, Serialize};

use crate::model::figure::transfer::{self, CurveKind};
use crate::probe::depth::Depth;
use crate::probe::terms::Terms;

/// One way of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Curve {
    /// CUDA copies the message to pageable memory, which the NIC sends.
    Pageable,
    /// GPUDirect v1: an explicit copy to pinned memory that GPU and NIC share, then a send.
    Copy,
    /// GPUDirect v1 in chunks that overlap.
    Pipelined,
    /// GPUDirect v3: the NIC reads and writes GPU memory.
    Direct,
    /// As Direct, over the NIC that is farthest from the GPU.
    Far,
    /// Host memory to host memory.
    Host,
}

impl Curve {
    /// The first one's memory path is that of the report's ends.
    pub const ALL: [Self; 6] =
        [Self::Direct, Self::Host, Self::Far, Self::Pipelined, Self::Copy, Self::Pageable];

    /// Its figures.
    pub fn kind(self) -> CurveKind {
        match self {
            Self::Pageable => transfer::NO_GPUDIRECT,
            Self::Copy => transfer::V1,
            Self::Pipelined => transfer::V1_PIPELINED,
            Self::Direct => transfer::V3,
            Self::Far => transfer::V3_FAR,
            Self::Host => transfer::HOST,
        }
    }

    /// True if the NIC must reach GPU memory.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::Far)
    }
}

/// The chunks of a pipelined message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunking {
    /// Of this size.
    Of(usize),
    /// The best size that was found; messages follow each other.
    Best,
    /// The best size; each message waits for the one before to arrive.
    Alone,
}

impl Terms {
    /// The sizes of `gdr probe transfer`, ascending: 4 B to 64 MiB.
    pub fn transfer_sizes(&self) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        match self.depth {
            Depth::Quick => vec![4, 4 << 10, 64 << 10, 1 << 20],
            Depth::Default => (1..=13).map(|exponent| 1 << (2 * exponent)).collect(),
            Depth::Full => (2..=26).map(|exponent| 1 << exponent).collect(),
        }
    }
}
