//! The integrity check finds copies of simulated GPUs that lose, zero, swap or delay a page.

use gpu::Gpu;
use gpu::sim::{Fault, Faults};

use super::cluster::Member;
use super::integrity::{GpuPair, Transfer};
use crate::probe::integrity::{Seeds, Wrong};

const BYTES: usize = 16 << 10;

/// The wrong words of each transfer between two GPUs; the local one has the faults.
fn wrong_words(faults: Option<Faults>) -> Vec<(Transfer, Option<(u32, Wrong)>)> {
    let local_gpu = faults.map_or_else(Gpu::sim, Gpu::sim_with);
    let local_gpu = Member::new(local_gpu).expect("a GPU");
    let remote_gpu = Member::new(Gpu::sim()).expect("a GPU");
    let _access = local_gpu.gpu.access(&remote_gpu.gpu).expect("access");
    let (local, remote) =
        (local_gpu.allocate(BYTES).expect("memory"), remote_gpu.allocate(BYTES).expect("memory"));
    let pair =
        GpuPair { local_gpu: &local_gpu, remote_gpu: &remote_gpu, local: &local, remote: &remote };
    let seeds = Seeds::default();
    Transfer::ALL
        .map(|transfer| (transfer, pair.verify(transfer, BYTES, &seeds).expect("it runs")))
        .to_vec()
}

#[test]
fn accepts_right_words() {
    for (transfer, wrong) in wrong_words(None) {
        assert_eq!(wrong, None, "{transfer:?}");
    }
}

#[test]
fn finds_lost_zeroed_swapped_and_late_pages() {
    for kind in [Fault::Drop, Fault::Zero, Fault::Swap, Fault::Delay] {
        for seed in 0..100 {
            for (transfer, wrong) in wrong_words(Some(Faults { kind, seed })) {
                let (round, wrong) =
                    wrong.unwrap_or_else(|| panic!("{kind:?} {seed} {transfer:?} was not found"));
                assert!(
                    round <= 3 && wrong.words > 0 && wrong.at < BYTES as u64,
                    "{kind:?} {seed} {transfer:?}: {wrong}"
                );
                assert_ne!(wrong.expected, wrong.found);
                if kind == Fault::Zero && transfer != Transfer::Load {
                    assert_eq!(wrong.found, 0, "{seed} {transfer:?}");
                }
            }
        }
    }
}
