//! Helper threads for large copies. `policy` decides when a copy uses them.
//!
//! A copy never waits for a helper that has not started: the caller copies parts too, and helpers
//! take those they are in time for. While one copy has the pool, others copy alone. Helpers start
//! when a copy first needs them, run on the CPUs of the thread that copies, block signals (except
//! faults), are never joined, access only the pool and the memory of the copy, and keep the library
//! that holds their code loaded.
//!
//! Each process has its own pools ([`gdr_sys::process::PerProcess`]): a forked child starts new helpers.

mod cpus;
mod cut;
mod job;
mod place;
mod policy;
mod threads;

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

pub use cpus::Cpus;
use cpus::SharedCpus;
pub(crate) use job::{Direction, Job};
use job::{Line, Shared};
pub(crate) use place::{ANYWHERE, CpuPool};
pub(crate) use policy::Budget;
use policy::{LOOP, Situation};

/// Maximum threads per copy, the caller included. 16 read 15.7 GB/s from an H200; more would take
/// too many CPUs from the program.
pub(crate) const MAX_THREADS: usize = 16;

#[derive(Debug, Default)]
#[repr(C)]
struct Pool {
    /// 1 while a thread's copy uses the pool.
    taken: AtomicU32,
    /// 1 once a thread could not be created: the pool keeps the helpers that it has.
    full: AtomicU32,
    /// End of the last shared copy, in nanoseconds of the monotonic clock.
    last: AtomicU64,
    /// How long helpers poll for the next job before they sleep, in nanoseconds.
    linger: AtomicU64,
    /// Number of copies in a row that followed the one before at once.
    streak: AtomicU32,
    /// Time that helpers recently saved, in nanoseconds; negative if sharing took longer than
    /// copying alone.
    gain: AtomicI64,
    /// Number of copies still to run without helpers, because helpers lost time.
    rest: AtomicU32,
    /// Initial value of `rest` the last time.
    rested: AtomicU32,
    /// CPUs of the helpers, and the number of threads that they and a container's quota allow.
    cpus: SharedCpus,
    allowed: AtomicU32,
    /// When `cpus` last changed, in nanoseconds.
    bound: AtomicU64,
    /// Helpers that run or sleep.
    helpers: Line<AtomicU32>,
    /// Number of helpers that copies can use.
    wanted: AtomicU32,
    sleepers: AtomicU32,
    job: Shared,
    seats: [Line<Seat>; MAX_THREADS - 1],
}

/// CpuPool of one helper in the pool.
#[derive(Debug, Default)]
#[repr(C)]
struct Seat {
    /// [`ASLEEP`] or 0; the word that the helper sleeps on.
    asleep: AtomicU32,
    /// Thread ID; 0 before the helper runs.
    thread: AtomicU32,
}

/// The helper sleeps and must be woken through its seat's word.
const ASLEEP: u32 = 1;

/// Helpers that the caller wakes; those wake the rest.
const WOKEN_BY_CALLER: usize = 8;

/// Limit of the recorded gain or loss, in nanoseconds.
const MAX_CREDIT: i64 = 300_000;

impl Pool {
    /// Copies with helpers if the policy allows. False, with nothing copied, if not.
    ///
    /// # Safety
    /// As [`CpuPool::copy`]; the caller has taken the pool.
    unsafe fn share(&'static self, job: &Job, budget: Budget, hint: &Cpus) -> bool {
        let rest = self.rest.load(Ordering::Relaxed);
        if rest != 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return false;
        }
        let begun = now();
        let situation = self.situation(begun);
        let decide =
            |available| policy::decide(budget, job.direction, job.len, available, situation);
        // Counting the CPUs takes a system call, which after a pause costs a write of 256 KiB a fifth of its time.
        if decide(MAX_THREADS - 1).is_none() {
            return false;
        }
        let Some(decision) = decide(threads::available(self, hint, begun)) else {
            return false;
        };
        self.linger.store(decision.linger, Ordering::Relaxed);
        let (running, expected) = threads::request(self, decision.helpers);
        // A helper that starts during a read takes its share of it. The first write is not faster
        // with one, and takes half as much CPU time again.
        let helpers = if job.direction == Direction::Write { running } else { expected };
        if helpers == 0 {
            return false;
        }
        let parts = self.job.announce(job, decision.least, helpers);
        if decision.wake && self.sleepers.load(Ordering::SeqCst) != 0 {
            self.wake(helpers, WOKEN_BY_CALLER);
        }
        // SAFETY: the caller keeps the memory valid until this function returns.
        unsafe { self.copy_parts(job, parts, begun) };
        true
    }

    /// Records the pause before this copy.
    fn situation(&self, begun: u64) -> Situation {
        let pause = begun.saturating_sub(self.last.load(Ordering::Relaxed));
        let streak =
            if pause <= LOOP { self.streak.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.streak.store(streak, Ordering::Relaxed);
        Situation {
            pause,
            streak,
            all_asleep: self.sleepers.load(Ordering::Relaxed)
                >= self.helpers.0.load(Ordering::Relaxed),
            linger: self.linger.load(Ordering::Relaxed),
        }
    }

    /// Copies the caller's parts and waits for those of the helpers.
    ///
    /// # Safety
    /// The announced job's memory stays valid until this returns.
    unsafe fn copy_parts(&self, job: &Job, parts: u32, begun: u64) {
        let started = now();
        // SAFETY: guaranteed by the caller.
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
    }

    /// Stops using helpers for a while once they have lost more time than they gained, because
    /// other threads interrupt them on their CPUs: for 64 copies, then for twice as many each time.
    fn judge(&self, gain: i64) {
        let gain = self.gain.load(Ordering::Relaxed).saturating_add(gain).min(MAX_CREDIT);
        if gain < -MAX_CREDIT {
            let rest = (self.rested.load(Ordering::Relaxed) * 2).clamp(64, 8192);
            self.rest.store(rest, Ordering::Relaxed);
            self.rested.store(rest, Ordering::Relaxed);
        } else if gain == MAX_CREDIT {
            self.rested.store(0, Ordering::Relaxed);
        }
        self.gain.store(if gain < -MAX_CREDIT { 0 } else { gain }, Ordering::Relaxed);
    }

    /// Wakes up to `most` of the first `helpers` helpers.
    fn wake(&self, helpers: usize, most: usize) {
        let asleep = |word: &&AtomicU32| {
            word.load(Ordering::Relaxed) == ASLEEP && word.swap(0, Ordering::SeqCst) == ASLEEP
        };
        let words = self.seats[..helpers].iter().map(|seat| &seat.0.asleep);
        for word in words.filter(asleep).take(most) {
            threads::wake(word);
        }
    }
}

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure passed to it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
