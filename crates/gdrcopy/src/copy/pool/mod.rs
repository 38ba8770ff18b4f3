//! Helper threads for large copies, started at the first one and put to sleep soon after the last.
//!
//! A copy never waits for a helper that has not started: the caller copies parts too, and helpers
//! take those they are in time for. While one copy has the pool, others copy alone. Helpers block
//! signals (except faults), are never joined, access only the pool and the memory of the copy, and
//! keep the library that holds their code loaded.
//!
//! Each process has its own pools ([`process::PerProcess`]): a forked child starts new helpers.

mod cpus;
mod cut;
mod job;
mod place;
mod threads;

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

pub use cpus::Cpus;
pub(crate) use job::{Direction, Job};
use job::{Line, Shared};
pub(crate) use place::{ANYWHERE, Place};

/// Maximum threads per copy, the caller included. 16 read 15.7 GB/s from an H200; more would take
/// too many CPUs from the program.
pub(crate) const MOST_THREADS: usize = 16;

#[derive(Debug, Default)]
#[repr(C)]
struct Pool {
    state: AtomicU32,
    /// 1 while a thread's copy uses the pool.
    taken: AtomicU32,
    /// End of the last shared copy, in nanoseconds of the monotonic clock.
    last: AtomicU64,
    /// How long helpers poll for the next job before they sleep, in nanoseconds.
    linger: AtomicU64,
    /// Time that helpers recently saved, in nanoseconds; negative if sharing took longer than
    /// copying alone.
    gain: AtomicI64,
    /// Number of copies still to run without helpers, because helpers lost time.
    rest: AtomicU32,
    /// Initial value of `rest` the last time.
    rested: AtomicU32,
    /// Helpers that run or sleep.
    helpers: Line<AtomicU32>,
    sleepers: AtomicU32,
    job: Shared,
    seats: [Line<AtomicU32>; MOST_THREADS - 1],
}

/// `Pool::state`: no copy has requested helpers yet.
const FRESH: u32 = 0;
/// Helpers are requested or running.
const STARTED: u32 = 1;
/// One CPU, or thread creation failed.
const NO_HELPERS: u32 = 2;

/// The helper sleeps and must be woken through its seat's word.
const ASLEEP: u32 = 1;

/// Below this, waking helpers gains nothing (2 to 3 µs of the caller's time for each, and 50 to 100
/// µs until it runs, in a virtual machine), except in a burst of copies that wakes them once.
const WAKE_FROM: Work = Work {
    write: 512 << 10,
    read: 16 << 10,
};

/// Helpers that the caller wakes; those wake the rest.
const WOKEN_BY_CALLER: usize = 8;

/// Copies within this interval are a burst, in nanoseconds.
const BURST: u64 = 200_000;

/// Minimum time that helpers poll for the next job, in nanoseconds.
const LINGER: u64 = 100_000;
/// Maximum time that helpers poll, in nanoseconds.
const LONGEST_LINGER: u64 = 2_000_000;

/// Limit of the recorded gain or loss, in nanoseconds.
const MOST_CREDIT: i64 = 300_000;

/// One value for each direction.
struct Work {
    write: usize,
    read: usize,
}

impl Work {
    fn of(&self, direction: Direction) -> usize {
        if direction == Direction::Write {
            self.write
        } else {
            self.read
        }
    }
}

impl Pool {
    /// True if helpers exist or will soon; requests them the first time.
    #[inline]
    fn is_started(&'static self, hint: &Cpus) -> bool {
        match self.state.load(Ordering::Acquire) {
            STARTED => true,
            FRESH => threads::start(self, hint),
            _ => false,
        }
    }

    /// # Safety
    /// As [`Place::copy`]; the caller has taken the pool.
    unsafe fn share(&self, job: &Job, helpers: usize) -> bool {
        let rest = self.rest.load(Ordering::Relaxed);
        if rest != 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return false;
        }
        let begun = now();
        let pause = begun.saturating_sub(self.last.load(Ordering::Relaxed));
        let worth_waking = job.len >= WAKE_FROM.of(job.direction) || pause < BURST;
        let all_asleep =
            self.sleepers.load(Ordering::Relaxed) >= self.helpers.0.load(Ordering::Relaxed);
        if all_asleep && !worth_waking {
            self.last.store(begun, Ordering::Relaxed);
            return false;
        }
        self.linger.store(
            linger(self.linger.load(Ordering::Relaxed), pause),
            Ordering::Relaxed,
        );
        let (least, helpers) = shares(job, helpers);
        let parts = self.job.announce(job, least, helpers);
        if worth_waking && self.sleepers.load(Ordering::SeqCst) != 0 {
            self.wake(helpers, WOKEN_BY_CALLER);
        }
        let started = now();
        // SAFETY: the caller keeps the memory valid until this function returns.
        let copied = unsafe { self.job.take_part() };
        let waited_from = now();
        let mut turns = 0_u32;
        while !self.job.is_done(parts) {
            std::hint::spin_loop();
            turns += 1;
            // An interrupted helper may need this CPU to finish its part.
            if turns.is_multiple_of(4096) {
                std::thread::yield_now();
            }
        }
        let ended = now();
        self.last.store(ended, Ordering::Relaxed);
        // Estimated time without helpers, from the speed of the parts the caller copied.
        let alone = ((waited_from - started) as u128 * job.len as u128).checked_div(copied as u128);
        if let Some(alone) = alone {
            self.judge(alone as i64 - (ended - begun) as i64);
        }
        true
    }

    /// Stops using helpers for a while once they have lost more time than they gained, because
    /// other threads interrupt them on their CPUs: for 64 copies, then for twice as many each time.
    fn judge(&self, gain: i64) {
        let gain = self
            .gain
            .load(Ordering::Relaxed)
            .saturating_add(gain)
            .min(MOST_CREDIT);
        if gain < -MOST_CREDIT {
            let rest = (self.rested.load(Ordering::Relaxed) * 2).clamp(64, 8192);
            self.rest.store(rest, Ordering::Relaxed);
            self.rested.store(rest, Ordering::Relaxed);
        } else if gain == MOST_CREDIT {
            self.rested.store(0, Ordering::Relaxed);
        }
        self.gain.store(
            if gain < -MOST_CREDIT { 0 } else { gain },
            Ordering::Relaxed,
        );
    }

    /// Wakes up to `most` of the first `helpers` helpers.
    fn wake(&self, helpers: usize, most: usize) {
        let asleep = |seat: &&Line<AtomicU32>| {
            seat.0.load(Ordering::Relaxed) == ASLEEP && seat.0.swap(0, Ordering::SeqCst) == ASLEEP
        };
        for seat in self.seats[..helpers].iter().filter(asleep).take(most) {
            threads::wake(&seat.0);
        }
    }
}

/// How long helpers poll for the next copy: twice a recent pause, so that a steady program finds
/// them awake. The recorded pause decays with each copy, and is reset after a pause longer than any
/// wait.
fn linger(before: u64, pause: u64) -> u64 {
    if pause < LONGEST_LINGER {
        (2 * pause)
            .max(before - before / 64)
            .clamp(LINGER, LONGEST_LINGER)
    } else {
        LINGER
    }
}

/// Division of a job: (minimum part in bytes, useful helpers).
fn shares(job: &Job, helpers: usize) -> (usize, usize) {
    let (least, most) = match job.direction {
        // The bus takes 34 GB/s of stores: from two threads if the source is in their caches, from
        // six if it is in memory. Each part ends with draining buffers, so short copies have as
        // many parts as threads.
        Direction::Write if job.len < 128 << 10 => (32 << 10, 1),
        Direction::Write => (16 << 10, 5),
        Direction::Read | Direction::OrderedRead if job.len < 128 << 10 => {
            (2 << 10, MOST_THREADS - 1)
        }
        Direction::Read | Direction::OrderedRead => (4 << 10, MOST_THREADS - 1),
    };
    (
        least,
        helpers
            .min(most)
            .min(job.len.div_ceil(least).saturating_sub(1)),
    )
}

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the structure passed to it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
