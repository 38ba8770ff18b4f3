//! Pools of a process: one for each set of preferred CPUs.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use process::PerProcess;

use super::{Cpus, Job, Pool};

/// Preferred CPUs of helpers, and their pool. Lives as long as the process.
#[derive(Debug)]
pub(crate) struct Place {
    hint: Cpus,
    /// A forked child starts with a new pool: it has none of its parent's threads.
    pool: PerProcess<Pool>,
    /// Place created before this one.
    next: *const Place,
}

// SAFETY: `next` is set before the place is shared, never changed, and points to a place that is
// never freed.
unsafe impl Sync for Place {}

/// Helpers on any CPU of the process's affinity. End of the list.
pub(crate) static ANYWHERE: Place = Place::new(Cpus::NONE, ptr::null());

/// Latest place; null while there is only [`ANYWHERE`].
static LATEST: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

impl Place {
    const fn new(hint: Cpus, next: *const Place) -> Place {
        Place {
            hint,
            pool: PerProcess::new(Pool::default),
            next,
        }
    }

    /// Place for helpers near these CPUs, the same one for the same CPUs. [`ANYWHERE`] once there
    /// are more places than machines have nodes.
    pub(crate) fn near(hint: &Cpus) -> &'static Place {
        loop {
            if let Some(place) = Self::all().find(|place| place.hint == *hint) {
                return place;
            }
            if Self::all().count() > 64 {
                return &ANYWHERE;
            }
            let latest = LATEST.load(Ordering::Acquire);
            let next = if latest.is_null() {
                &raw const ANYWHERE
            } else {
                latest
            };
            let place = Box::into_raw(Box::new(Place::new(*hint, next)));
            if LATEST
                .compare_exchange(latest, place, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                // SAFETY: allocated above and not shared yet.
                drop(unsafe { Box::from_raw(place) });
            }
        }
    }

    fn all() -> impl Iterator<Item = &'static Place> {
        let latest = LATEST.load(Ordering::Acquire);
        // SAFETY: places in the list are never freed, and each points to an older one or is null.
        let first = unsafe { latest.as_ref() }.unwrap_or(&ANYWHERE);
        // SAFETY: as above.
        std::iter::successors(Some(first), |place| unsafe { place.next.as_ref() })
    }

    /// Copies with up to `threads` threads that are in time, including the caller. False, with
    /// nothing copied, if there are no helpers or another copy has them.
    ///
    /// # Safety
    /// The job's memory is valid for its kernel, which this CPU supports.
    pub(crate) unsafe fn copy(&'static self, job: &Job, threads: usize) -> bool {
        if threads < 2 {
            return false;
        }
        let pool = self.pool.get();
        if !pool.is_started(&self.hint) || pool.taken.swap(1, Ordering::Acquire) != 0 {
            return false;
        }
        let helpers = (pool.helpers.0.load(Ordering::Relaxed) as usize).min(threads - 1);
        // SAFETY: guaranteed by the caller; `share` returns once every part is done.
        let shared = helpers != 0 && unsafe { pool.share(job, helpers) };
        pool.taken.store(0, Ordering::Release);
        shared
    }
}
