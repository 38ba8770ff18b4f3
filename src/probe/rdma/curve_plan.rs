//! The memory and the test cases of each curve.

use verbs::Transport;

use super::control::Offer;
use super::curve::{Chunking, Curve};
use super::end::End;
use super::kind::Kind;
use super::plan::planned;
use super::staged;
use super::task::{LocalEnd, Memory, MemoryPath, Task};
use super::test_case::{Planned, TestCase};
use crate::probe::terms::Terms;

/// The test cases between two ends; none over EFA, and if the curve needs GPUDirect RDMA, which an end does not have.
pub fn curve_cases(curve: Curve, task: &Task, end: &End, other: &Offer) -> Vec<Planned> {
    if end.srd.is_some() || curve.is_direct() && (end.is_staged() || other.staged) {
        Vec::new()
    } else {
        planned(task, curve.test_cases(&task.terms), end, other)
    }
}

impl Curve {
    /// The place of this curve, at the same port and GPU; `None` if the place has no GPU.
    pub fn place(self, place: &LocalEnd) -> Option<LocalEnd> {
        let Memory::Gpu(gpu, wanted) = &place.memory else {
            return None;
        };
        if place.port.simulated && gpu.ordinal.is_some() && self.is_direct() {
            return None;
        }
        let memory = match self {
            Self::Pageable => Memory::Gpu(gpu.clone(), Some(MemoryPath::Pageable)),
            Self::Copy | Self::Pipelined => Memory::Gpu(gpu.clone(), Some(MemoryPath::Staged)),
            Self::Direct | Self::Far => {
                // A real NIC does not know the simulated GPU's addresses.
                let simulated = gpu.ordinal.is_none() && !place.port.simulated;
                let path = simulated.then_some(MemoryPath::Simulated);
                Memory::Gpu(gpu.clone(), path.or(*wanted))
            }
            // The simulated NIC has the memory of GPUs and their drivers alone.
            Self::Host if place.port.simulated => Memory::Pinned(gpu.clone()),
            Self::Host => Memory::Host,
        };
        Some(LocalEnd { memory, curve: Some(self), ..place.clone() })
    }

    /// Verifies each size, and measures latency and bandwidth.
    pub fn test_cases(self, terms: &Terms) -> Vec<TestCase> {
        let sizes = terms.transfer_sizes();
        let most = sizes.last().copied().unwrap_or(4);
        let mut cases = Vec::new();
        if self == Self::Pipelined {
            // The best chunk is searched at the largest size.
            let chunks = terms.depth.chunks().iter();
            let chunks = chunks.filter(|chunk| **chunk <= most && staged::is_possible(**chunk));
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
