//! Properties of GPU pairs.

use serde::{Deserialize, Serialize};

use super::codes::P2p;
use super::facts::Pair;
use super::raw::Device;
use super::reading::Reading;
use super::session::Session;

/// Peer-to-peer capability: `nvmlGpuP2PCapsIndex_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// `nvidia-smi topo -p2p r`.
    Read,
    /// `nvidia-smi topo -p2p w`.
    Write,
    /// `nvidia-smi topo -p2p n`.
    Nvlink,
    /// `nvidia-smi topo -p2p a`.
    Atomics,
    /// `nvidia-smi topo -p2p p`.
    Pci,
}

impl Capability {
    /// NVML's number; 5 means "unknown".
    fn index(self) -> u32 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Nvlink => 2,
            Self::Atomics => 3,
            Self::Pci => 4,
        }
    }
}

/// Each pair once: statuses apply to both directions, and one costs 1.65 ms, so eight GPUs take a
/// quarter of a second instead of half a second.
pub(super) fn read(
    session: &Session,
    gpus: &[(u32, Device<'_>)],
    only: Option<Capability>,
) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (position, &a) in gpus.iter().enumerate() {
        for &b in gpus.iter().skip(position + 1) {
            pairs.push(pair(session, a, b, only));
        }
    }
    pairs
}

fn pair(
    session: &Session,
    (a, device_a): (u32, Device<'_>),
    (b, device_b): (u32, Device<'_>),
    only: Option<Capability>,
) -> Pair {
    let status = |capability: Capability| -> Reading<P2p> {
        if only.is_some_and(|only| only != capability) {
            return Reading::NotCovered;
        }
        Reading::of_newer_argument(session.p2p_status(device_a, device_b, capability.index()))
            .map(Into::into)
    };
    Pair {
        a,
        b,
        read: status(Capability::Read),
        write: status(Capability::Write),
        nvlink: status(Capability::Nvlink),
        atomics: status(Capability::Atomics),
        pcie: status(Capability::Pci),
    }
}
