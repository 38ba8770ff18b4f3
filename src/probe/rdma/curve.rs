//! The curves of `gdr probe transfer`: ways from GPU memory to GPU memory over a NIC, and host memory to host memory as the ceiling.

use serde::{Deserialize, Serialize};
use verbs::Transport;

use super::kind::Kind;
use super::plan::TestCase;
use super::task::{Memory, MemoryPath, Place};
use crate::probe::depth::{Depth, Terms};

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
    pub const ALL: [Self; 6] = [
        Self::Host,
        Self::Direct,
        Self::Far,
        Self::Pipelined,
        Self::Copy,
        Self::Pageable,
    ];

    /// In the names of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pageable => "no-gpudirect",
            Self::Copy => "v1",
            Self::Pipelined => "v1-pipelined",
            Self::Direct => "v3",
            Self::Far => "v3-far",
            Self::Host => "host",
        }
    }

    /// True if the NIC must reach GPU memory.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::Far)
    }

    /// The place of this curve, at the same port and GPU; `None` if the place has no GPU.
    pub fn place(self, place: &Place) -> Option<Place> {
        let Memory::Gpu(gpu, wanted) = &place.memory else {
            return None;
        };
        if place.port.simulated && gpu.ordinal.is_some() && self.is_direct() {
            return None;
        }
        let memory = match self {
            Self::Pageable => Memory::Gpu(gpu.clone(), Some(MemoryPath::Pageable)),
            Self::Copy | Self::Pipelined => Memory::Gpu(gpu.clone(), Some(MemoryPath::Staged)),
            Self::Direct | Self::Far => Memory::Gpu(gpu.clone(), *wanted),
            // The simulated NIC has the memory of GPUs and their drivers alone.
            Self::Host if place.port.simulated => Memory::Pinned(gpu.clone()),
            Self::Host => Memory::Host,
        };
        Some(Place {
            memory,
            curve: Some(self),
            ..place.clone()
        })
    }

    /// Verifies each size, and measures latency and bandwidth.
    pub fn test_cases(self, terms: &Terms) -> Vec<TestCase> {
        let sizes = terms.transfer_sizes();
        let most = sizes.last().copied().unwrap_or(4);
        let mut cases = Vec::new();
        if self == Self::Pipelined {
            // The best chunk is searched at the largest size.
            let chunks = terms.depth.chunks().iter().filter(|chunk| **chunk <= most);
            cases.extend(chunks.map(|chunk| TestCase::Chunked(most, Chunking::Of(*chunk))));
        }
        let of_size = |bytes: usize| {
            let verify = TestCase::Verify(Transport::Rc, Kind::Send, bytes);
            let ping_pong = TestCase::PingPong(Kind::Send, bytes);
            match self {
                // Their bandwidth follows from the round trip: nothing overlaps.
                Self::Pageable | Self::Copy => vec![verify, ping_pong],
                Self::Pipelined => vec![
                    TestCase::Chunked(bytes, Chunking::Alone),
                    TestCase::Chunked(bytes, Chunking::Best),
                ],
                Self::Direct | Self::Far | Self::Host => {
                    vec![verify, ping_pong, TestCase::Stream(Kind::Write, bytes)]
                }
            }
        };
        cases.extend(sizes.into_iter().flat_map(of_size));
        cases
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
