//! Pools of a process: one for each set of preferred CPUs.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use gdr_sys::process::PerProcess;

use super::job::Line;
use super::{Budget, Cpus, Job, Pool, now};

/// Preferred CPUs of helpers, and their pool. Lives as long as the process.
#[derive(Debug)]
pub(crate) struct CpuPool {
    hint: Cpus,
    /// A forked child starts with a new pool: it has none of its parent's threads.
    pool: PerProcess<Pool>,
    /// CpuPool created before this one.
    next: *const CpuPool,
}

// SAFETY: `next` is set before the place is shared, never changed, and points to a place that is
// never freed.
unsafe impl Sync for CpuPool {}

/// Helpers on any CPU of the process's affinity. End of the list.
pub(crate) static ANYWHERE: CpuPool = CpuPool::new(Cpus::NONE, ptr::null());

/// Latest place; null while there is only [`ANYWHERE`].
static LATEST: AtomicPtr<CpuPool> = AtomicPtr::new(ptr::null_mut());

impl CpuPool {
    const fn new(hint: Cpus, next: *const CpuPool) -> CpuPool {
        CpuPool { hint, pool: PerProcess::new(Pool::default), next }
    }

    /// CpuPool for helpers near these CPUs, the same one for the same CPUs. [`ANYWHERE`] once there
    /// are more places than machines have nodes.
    pub(crate) fn near(hint: &Cpus) -> &'static CpuPool {
        loop {
            if let Some(place) = Self::all().find(|place| place.hint == *hint) {
                return place;
            }
            if Self::all().count() > 64 {
                return &ANYWHERE;
            }
            let latest = LATEST.load(Ordering::Acquire);
            let next = if latest.is_null() { &raw const ANYWHERE } else { latest };
            let place = Box::into_raw(Box::new(CpuPool::new(*hint, next)));
            if LATEST.compare_exchange(latest, place, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                // SAFETY: allocated above and not shared yet.
                drop(unsafe { Box::from_raw(place) });
            }
        }
    }

    fn all() -> impl Iterator<Item = &'static CpuPool> {
        let latest = LATEST.load(Ordering::Acquire);
        // SAFETY: places in the list are never freed, and each points to an older one or is null.
        let first = unsafe { latest.as_ref() }.unwrap_or(&ANYWHERE);
        // SAFETY: as above.
        std::iter::successors(Some(first), |place| unsafe { place.next.as_ref() })
    }

    /// Copies, with helpers if the budget allows and no other copy has them.
    ///
    /// # Safety
    /// The job's memory is valid for its kernel, which this CPU supports.
    pub(crate) unsafe fn copy(&'static self, job: &Job, budget: Budget) {
        let pool = self.pool.get();
        let crowd = Crowd::enter();
        if (crowd.alone || budget.spin.is_some()) && pool.taken.swap(1, Ordering::Acquire) == 0 {
            // SAFETY: guaranteed by the caller; `share` returns once every part is done.
            let shared = unsafe { pool.share(job, budget, &self.hint) };
            pool.taken.store(0, Ordering::Release);
            if shared {
                return;
            }
        }
        // SAFETY: guaranteed by the caller.
        unsafe { job.copy_alone() };
        pool.last.store(now(), Ordering::Relaxed);
    }
}

/// A large copy of this process, from its begin to its end. Several at once use no helpers: their
/// callers have the CPUs.
#[derive(Debug)]
struct Crowd {
    counts: &'static Counts,
    alone: bool,
}

#[derive(Debug, Default)]
struct Counts {
    copies: Line<AtomicU32>,
    /// Until when copies count as simultaneous, in nanoseconds of the monotonic clock.
    until: Line<AtomicU64>,
}

/// How long callers that copied at once are expected to do so again, in nanoseconds.
const CROWDED: u64 = 2_000_000;

/// A forked child has none of its parent's copies.
static COUNTS: PerProcess<Counts> = PerProcess::new(Counts::default);

impl Crowd {
    /// Counts a copy of this process.
    fn enter() -> Crowd {
        Self::among(COUNTS.get())
    }

    fn among(counts: &'static Counts) -> Crowd {
        let others = counts.copies.0.fetch_add(1, Ordering::Relaxed);
        let until = counts.until.0.load(Ordering::Relaxed);
        let time = now();
        // Not at each copy: the other callers read this line.
        if others != 0 && until < time + CROWDED / 2 {
            counts.until.0.store(time + CROWDED, Ordering::Relaxed);
        }
        Crowd { counts, alone: others == 0 && until < time }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.counts.copies.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn copies_at_once_use_no_helpers() {
        static COUNTS: Counts =
            Counts { copies: Line(AtomicU32::new(0)), until: Line(AtomicU64::new(0)) };
        let first = Crowd::among(&COUNTS);
        let second = Crowd::among(&COUNTS);
        assert!(first.alone && !second.alone);
        drop((first, second));
        assert!(!Crowd::among(&COUNTS).alone, "they did a moment ago");
        sleep(Duration::from_nanos(2 * CROWDED));
        assert!(Crowd::among(&COUNTS).alone);
    }
}
