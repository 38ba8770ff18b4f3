//! The integrity check finds copies of a simulated GPU that lose, zero, swap or delay a page.

use gpu::sim::{Fault, Faults};
use gpu::{Allocation, Gpu};

use super::integrity::Path;
use super::session::{Direction, HostMemoryKind};
use crate::probe::integrity::{Seeds, Wrong};

const BYTES: usize = 16 << 10;

fn wrong_words(
    faults: Option<Faults>,
    memory_kind: HostMemoryKind,
) -> Vec<(Direction, Option<(u32, Wrong)>)> {
    let gpu = faults.map_or_else(Gpu::sim, Gpu::sim_with);
    let streams = [gpu.stream().expect("a stream"), gpu.stream().expect("a stream")];
    let memory = gpu.allocate(Allocation::Malloc, BYTES).expect("memory");
    let host = memory_kind.allocate(&gpu, BYTES).expect("host memory");
    let path = Path { stream: &streams[0], witness: &streams[1], memory: &memory, host: &host };
    let seeds = Seeds::default();
    Direction::BOTH
        .map(|direction| (direction, path.verify(direction, BYTES, &seeds).expect("it runs")))
        .to_vec()
}

#[test]
fn accepts_right_words() {
    for memory_kind in HostMemoryKind::ALL {
        for (direction, wrong) in wrong_words(None, memory_kind) {
            assert_eq!(wrong, None, "{memory_kind:?} {direction:?}");
        }
    }
}

#[test]
fn finds_lost_zeroed_swapped_and_late_pages() {
    for kind in [Fault::Drop, Fault::Zero, Fault::Swap, Fault::Delay] {
        for seed in 0..100 {
            let memory_kind = HostMemoryKind::ALL[seed as usize % HostMemoryKind::ALL.len()];
            for (direction, wrong) in wrong_words(Some(Faults { kind, seed }), memory_kind) {
                let case = format!("{kind:?} {seed} {memory_kind:?} {direction:?}");
                let (round, wrong) = wrong.unwrap_or_else(|| panic!("{case} was not found"));
                assert!(
                    round <= 3 && wrong.words > 0 && wrong.at < BYTES as u64,
                    "{case}: {wrong}"
                );
                if kind == Fault::Zero {
                    assert_eq!(wrong.found, 0, "{case}");
                }
            }
        }
    }
}
