//! The integrity pass finds what goes wrong: copies of simulated GPUs that lose, zero, exchange or delay a page.

use gpu::Gpu;
use gpu::sim::{Fault, Faults};

use super::cluster::Member;
use super::integrity::{Means, Two};
use crate::probe::integrity::{Seeds, Wrong};

const BYTES: usize = 16 << 10;

/// What is found of each way from one GPU to another, where the first one's copies go so.
fn found(faults: Option<Faults>) -> Vec<(Means, Option<(u32, Wrong)>)> {
    let here = faults.map_or_else(Gpu::sim, Gpu::sim_with);
    let here = Member::of(here).expect("a GPU");
    let there = Member::of(Gpu::sim()).expect("a GPU");
    let _access = here.gpu.access(&there.gpu).expect("access");
    let (local, remote) = (
        here.take(BYTES).expect("memory"),
        there.take(BYTES).expect("memory"),
    );
    let two = Two {
        here: &here,
        there: &there,
        local: &local,
        remote: &remote,
    };
    let seeds = Seeds::default();
    Means::ALL
        .map(|means| (means, two.verify(means, BYTES, &seeds).expect("it runs")))
        .to_vec()
}

#[test]
fn right_words_are_right() {
    for (means, wrong) in found(None) {
        assert_eq!(wrong, None, "{means:?}");
    }
}

#[test]
fn a_page_that_is_lost_zeroed_exchanged_or_late_is_found_every_time() {
    for kind in [Fault::Drop, Fault::Zero, Fault::Swap, Fault::Delay] {
        for seed in 0..100 {
            for (means, wrong) in found(Some(Faults { kind, seed })) {
                let (round, wrong) =
                    wrong.unwrap_or_else(|| panic!("{kind:?} {seed} {means:?} was not found"));
                assert!(
                    round <= 3 && wrong.words > 0 && wrong.at < BYTES as u64,
                    "{kind:?} {seed} {means:?}: {wrong}"
                );
                assert_ne!(wrong.expected, wrong.found);
                if kind == Fault::Zero && means != Means::Load {
                    assert_eq!(wrong.found, 0, "{seed} {means:?}");
                }
            }
        }
    }
}
