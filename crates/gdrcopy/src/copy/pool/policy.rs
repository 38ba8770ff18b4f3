//! Decides how many helpers a copy uses, whether it wakes them, and how long they poll after it.
//! Pure: reads no clock and no state.
//!
//! By default CPU time counts as much as latency. All threads of a copy together use about the CPU
//! time that one thread would: helpers join only if there is enough work for each, are woken only if
//! the copy is much longer than a wake-up, and poll only in a loop of copies. With
//! `GDR_COPY_SPIN_US` latency alone counts. The limits are measured on an H200 with 16 CPUs
//! (docs/measured).

use super::MAX_THREADS;
use super::job::Direction;

/// What the program allows a copy to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Maximum threads per copy, the caller included.
    pub(crate) threads: usize,
    /// How long helpers poll for the next copy, in nanoseconds (`GDR_COPY_SPIN_US`). `None`: they
    /// save CPU time.
    pub(crate) spin: Option<u64>,
}

impl Budget {
    /// Saves CPU time, with up to this many threads.
    pub(crate) const fn saving(threads: usize) -> Budget {
        Budget { threads, spin: None }
    }

    /// Minimum bytes of a copy that may use helpers.
    #[inline]
    pub(crate) fn shares_from(self, direction: Direction) -> usize {
        match (self.threads, self.spin, direction) {
            (0 | 1, ..) => usize::MAX,
            // 16 KiB reads take 16 µs on one thread, 4 on eight; 64 KiB writes 3.7 µs on one and
            // 3.0 on two.
            (_, Some(_), Direction::Write) => 64 << 10,
            (_, Some(_), _) => 16 << 10,
            (_, None, Direction::Write) => 256 << 10,
            (_, None, _) => 2 * READ_PER_THREAD,
        }
    }
}

/// State of the pool when a copy begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Nanoseconds since the last shared or large copy.
    pub(super) pause: u64,
    /// Number of copies in a row that followed the one before at once.
    pub(super) streak: u32,
    /// No helper polls.
    pub(super) all_asleep: bool,
    /// How long helpers polled after the last copy, in nanoseconds.
    pub(super) linger: u64,
}

/// How a copy uses helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// Minimum part in bytes.
    pub(super) least: usize,
    pub(super) helpers: usize,
    /// Wake those that sleep.
    pub(super) wake: bool,
    /// How long helpers poll after this copy, in nanoseconds.
    pub(super) linger: u64,
}

/// Bytes that a thread reads at least, in 20 µs: below this the exchange with the caller costs a
/// third of the CPU time.
const READ_PER_THREAD: usize = 20 << 10;
/// The same for a helper that must be woken, which takes it and the caller 10 to 20 µs of CPU time.
const READ_PER_WOKEN: usize = 48 << 10;

/// Maximum time that helpers poll after a copy by default, in nanoseconds.
const LONGEST_DEFAULT_LINGER: u64 = 15_000;

/// Copies within this interval form a loop, in nanoseconds.
pub(super) const LOOP: u64 = LONGEST_DEFAULT_LINGER;

/// Copies of a loop before it wakes helpers for sizes that alone would not be worth it.
const LOOP_STREAK: u32 = 8;

/// After a longer pause, waking a helper takes longer than one thread takes to write 512 KiB (idle states of CPUs), in nanoseconds.
const LONG_PAUSE: u64 = 5_000_000;

/// `None`: the caller copies alone.
pub(super) fn decide(
    budget: Budget,
    direction: Direction,
    len: usize,
    available: usize,
    now: Situation,
) -> Option<Decision> {
    if len < budget.shares_from(direction) || available == 0 {
        return None;
    }
    let most = available.min(budget.threads - 1);
    let decision = match budget.spin {
        None => saving(direction, len, most.min(leave_one(available)), now),
        Some(spin) => spinning(direction, len, most, spin, now),
    };
    (decision.helpers != 0 && (decision.wake || !now.all_asleep)).then_some(decision)
}

/// Leaves one of four or more CPUs to the program's other threads and to the host of a virtual
/// machine: where all are busy, a copy waits for milliseconds for the helper whose CPU was taken
/// away (docs/measured/2026-11-26-processes-h200.md).
fn leave_one(available: usize) -> usize {
    available - usize::from(available >= 3)
}

fn saving(direction: Direction, len: usize, most: usize, now: Situation) -> Decision {
    let write = direction == Direction::Write;
    let looping = now.pause <= LOOP;
    let threads = if write {
        // They reach the 34 GB/s of the bus; a third only waits.
        2
    } else if now.all_asleep && !looping {
        (len / READ_PER_WOKEN).max(1)
    } else {
        len / READ_PER_THREAD
    };
    let helpers = most.min(threads - 1);
    // Waking a helper takes 15 µs in a virtual machine after a pause of 100 µs, and 50 to 100 after 10 ms; in 50 µs the caller reads
    // 50 KiB and writes 750.
    let worth_waking = len
        >= match (write, now.pause < LONG_PAUSE) {
            (true, true) => 1 << 20,
            (true, false) => 2 << 20,
            (false, _) => 512 << 10,
        };
    // Expected duration: a thread reads 1 GB/s and writes 17.
    let duration = len as u64 / (helpers as u64 + 1) / if write { 17 } else { 1 };
    Decision {
        least: least_part(direction, len),
        helpers,
        wake: worth_waking || (looping && now.streak >= LOOP_STREAK),
        // A quarter of a copy, so that polling between copies costs at most as much.
        linger: if looping { (duration / 4).min(LONGEST_DEFAULT_LINGER) } else { 0 },
    }
}

/// Minimum time that helpers poll in this mode, in nanoseconds.
const SHORTEST_SPIN: u64 = 100_000;

/// Copies within this interval are a burst, in nanoseconds.
const BURST: u64 = 200_000;

fn spinning(direction: Direction, len: usize, most: usize, spin: u64, now: Situation) -> Decision {
    let least = least_part(direction, len);
    let useful = match direction {
        // Each part ends with draining buffers, so short copies have as many parts as threads.
        Direction::Write if len < 128 << 10 => 1,
        // Six threads if the source is in memory.
        Direction::Write => 5,
        Direction::Read | Direction::OrderedRead => MAX_THREADS - 1,
    };
    let worth_waking = len >= if direction == Direction::Write { 512 << 10 } else { 16 << 10 };
    Decision {
        least,
        helpers: most.min(useful).min(len.div_ceil(least).saturating_sub(1)),
        wake: worth_waking || now.pause < BURST,
        // Twice a recent pause, so that a steady program finds helpers awake. The recorded pause
        // decays with each copy.
        linger: if now.pause < spin {
            (2 * now.pause).max(now.linger - now.linger / 64).clamp(SHORTEST_SPIN.min(spin), spin)
        } else {
            SHORTEST_SPIN.min(spin)
        },
    }
}

fn least_part(direction: Direction, len: usize) -> usize {
    match direction {
        Direction::Write if len < 128 << 10 => 32 << 10,
        Direction::Write => 16 << 10,
        Direction::Read | Direction::OrderedRead if len < 128 << 10 => 2 << 10,
        Direction::Read | Direction::OrderedRead => 4 << 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASLEEP: Situation =
        Situation { pause: 1_000_000, streak: 0, all_asleep: true, linger: 0 };
    const IN_LOOP: Situation = Situation { pause: 500, streak: 100, all_asleep: false, linger: 0 };

    fn helpers(direction: Direction, len: usize, now: Situation) -> usize {
        decide(Budget::saving(16), direction, len, 15, now).map_or(0, |decision| decision.helpers)
    }

    #[test]
    fn paced_small_copies_run_alone() {
        for len in [4 << 10, 64 << 10, 256 << 10] {
            assert_eq!(helpers(Direction::Read, len, ASLEEP), 0, "{len}");
        }
        for len in [64 << 10, 512 << 10] {
            assert_eq!(helpers(Direction::Write, len, ASLEEP), 0, "{len}");
        }
        assert_eq!(helpers(Direction::Read, 512 << 10, ASLEEP), 9);
        assert_eq!(helpers(Direction::Read, 1 << 20, ASLEEP), 14);
        assert_eq!(helpers(Direction::Read, 16 << 20, ASLEEP), 14);
        assert_eq!(helpers(Direction::Write, 1 << 20, ASLEEP), 1);
        let paused = Situation { pause: 10_000_000, ..ASLEEP };
        assert_eq!(helpers(Direction::Write, 1 << 20, paused), 0);
        assert_eq!(helpers(Direction::Write, 2 << 20, paused), 1);
        assert_eq!(helpers(Direction::Write, 16 << 20, ASLEEP), 1);
    }

    #[test]
    fn helpers_follow_size_in_loop() {
        let reads = [(39 << 10, 0), (40 << 10, 1), (64 << 10, 2), (128 << 10, 5), (1 << 20, 14)];
        for (len, expected) in reads {
            assert_eq!(helpers(Direction::Read, len, IN_LOOP), expected, "{len}");
        }
        for (len, expected) in [(64 << 10, 0), (256 << 10, 1), (16 << 20, 1)] {
            assert_eq!(helpers(Direction::Write, len, IN_LOOP), expected, "{len}");
        }
    }

    #[test]
    fn helpers_sleep_at_once_unless_looping() {
        let linger = |now| {
            decide(Budget::saving(16), Direction::Read, 1 << 20, 15, now).expect("helpers").linger
        };
        assert_eq!(linger(ASLEEP), 0);
        assert_eq!(linger(IN_LOOP), 15_000);
    }

    #[test]
    fn budget_limits_threads() {
        let few = |threads, available| {
            decide(Budget::saving(threads), Direction::Read, 1 << 20, available, IN_LOOP)
                .map(|decision| decision.helpers)
        };
        assert_eq!(few(1, 15), None);
        assert_eq!(few(4, 15), Some(3));
        // One of four CPUs stays free.
        assert_eq!(few(16, 3), Some(2));
        assert_eq!(few(16, 2), Some(2));
        assert_eq!(few(16, 1), Some(1));
        assert_eq!(few(16, 0), None);
    }

    #[test]
    fn spinning_wakes_for_small_copies() {
        let budget = Budget { threads: 16, spin: Some(2_000_000) };
        let read = decide(budget, Direction::Read, 64 << 10, 15, ASLEEP).expect("helpers");
        assert_eq!((read.helpers, read.wake, read.linger), (15, true, 2_000_000));
        let short = Budget { spin: Some(50_000), ..budget };
        let read = decide(short, Direction::Read, 64 << 10, 15, ASLEEP).expect("helpers");
        assert_eq!(read.linger, 50_000);
    }
}
