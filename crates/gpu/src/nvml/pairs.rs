//! What NVML says of every two GPUs.

use super::codes::P2p;
use super::facts::Pair;
use super::raw::Device;
use super::reading::Reading;
use super::session::Session;

/// `nvmlGpuP2PCapsIndex_t`: index 4 is the `p` of `nvidia-smi topo -p2p p`; 5 is no capability but "unknown".
mod capability {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const NVLINK: u32 = 2;
    pub const ATOMICS: u32 = 3;
    pub const PCI: u32 = 4;
}

/// Each two once: the driver answers for the pair, and a status costs 1.65 ms, so eight GPUs cost a quarter of a second
/// this way and half a second the other.
pub(super) fn read(session: &Session, gpus: &[(u32, Device<'_>)]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (position, &a) in gpus.iter().enumerate() {
        for &b in gpus.iter().skip(position + 1) {
            pairs.push(pair(session, a, b));
        }
    }
    pairs
}

fn pair(session: &Session, (a, device_a): (u32, Device<'_>), (b, device_b): (u32, Device<'_>)) -> Pair {
    let status = |kind| -> Reading<P2p> {
        Reading::of_newer_argument(session.p2p_status(device_a, device_b, kind)).map(Into::into)
    };
    Pair {
        a,
        b,
        common_ancestor: Reading::from(session.common_ancestor(device_a, device_b)).map(Into::into),
        read: status(capability::READ),
        write: status(capability::WRITE),
        nvlink: status(capability::NVLINK),
        atomics: status(capability::ATOMICS),
        pcie: status(capability::PCI),
    }
}
