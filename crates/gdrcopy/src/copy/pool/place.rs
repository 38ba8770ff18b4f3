//! The pools of a process: one for each set of CPUs that copies should be helped from, and none that a fork left behind.

use std::mem;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::{Cpus, Job, Pool};

/// Where helpers should run, and their pool once there is one. Lives as long as the process.
#[derive(Debug)]
pub(crate) struct Place {
    hint: Cpus,
    pool: AtomicPtr<Pool>,
    /// The place made before this one.
    next: *const Place,
}

// SAFETY: `next` is set before the place is shared, never changed, and points to a place that is never freed.
unsafe impl Sync for Place {}

/// Helpers anywhere in the process's affinity. The end of the list of places.
pub(crate) static ANYWHERE: Place = Place::new(Cpus::NONE, ptr::null());

/// The latest place; null while there is only [`ANYWHERE`].
static LATEST: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

impl Place {
    const fn new(hint: Cpus, next: *const Place) -> Place {
        Place {
            hint,
            pool: AtomicPtr::new(ptr::null_mut()),
            next,
        }
    }

    /// The place for helpers near these CPUs: the same one for the same CPUs. Anywhere, when there have been more kinds of
    /// hint than machines have nodes.
    pub(crate) fn near(hint: &Cpus) -> &'static Place {
        loop {
            if let Some(place) = Self::all().find(|place| place.hint == *hint) {
                return place;
            }
            if Self::all().count() > 64 {
                return &ANYWHERE;
            }
            let latest = LATEST.load(Ordering::Acquire);
            let next = if latest.is_null() { &raw const ANYWHERE } else { latest };
            let place = Box::into_raw(Box::new(Place::new(*hint, next)));
            if LATEST
                .compare_exchange(latest, place, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
            {
                // SAFETY: made above, and seen by nobody.
                drop(unsafe { Box::from_raw(place) });
            }
        }
    }

    fn all() -> impl Iterator<Item = &'static Place> {
        let latest = LATEST.load(Ordering::Acquire);
        // SAFETY: places are never freed once they are in the list, and each points to an older one or nowhere.
        let first = unsafe { latest.as_ref() }.unwrap_or(&ANYWHERE);
        // SAFETY: as above.
        std::iter::successors(Some(first), |place| unsafe { place.next.as_ref() })
    }

    /// Copies with as many of `threads` threads as are there in time, the caller's among them. False, with nothing copied,
    /// where there is no pool or another copy has it.
    ///
    /// # Safety
    /// The job's memory is valid for its kernel, which this CPU supports.
    pub(crate) unsafe fn copy(&'static self, job: &Job, threads: usize) -> bool {
        let Some(pool) = self.pool() else {
            return false;
        };
        if threads < 2 || !pool.is_started(&self.hint) || pool.taken.swap(1, Ordering::Acquire) != 0 {
            return false;
        }
        let helpers = (pool.helpers.0.load(Ordering::Relaxed) as usize).min(threads - 1);
        // SAFETY: the caller's promise; `share` returns once every part is done.
        let shared = helpers != 0 && unsafe { pool.share(job, helpers) };
        pool.taken.store(0, Ordering::Release);
        shared
    }

    /// The pool's pages, made at the first call.
    fn pool(&'static self) -> Option<&'static Pool> {
        let known = self.pool.load(Ordering::Acquire);
        // SAFETY: only pages made by `Pool::map`, never unmapped once stored here, are ever stored here.
        NonNull::new(known)
            .map(|pool| unsafe { pool.as_ref() })
            .or_else(|| self.make_pool())
    }

    #[cold]
    fn make_pool(&'static self) -> Option<&'static Pool> {
        let made = Pool::map(forget_in_children())?;
        match self
            .pool
            .compare_exchange(ptr::null_mut(), made.as_ptr(), Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: zeroed pages of the pool's size, kept for good.
            Ok(_) => Some(unsafe { made.as_ref() }),
            Err(first) => {
                // SAFETY: the pages made above, which nobody else has seen.
                unsafe { libc::munmap(made.as_ptr().cast(), mem::size_of::<Pool>()) };
                // SAFETY: as in `pool`.
                NonNull::new(first).map(|pool| unsafe { pool.as_ref() })
            }
        }
    }
}

/// Has the C library's fork make the child forget all pools. True where it will.
fn forget_in_children() -> bool {
    static ASKED: AtomicBool = AtomicBool::new(false);
    // SAFETY: the handler only stores to memory that is never freed.
    ASKED.swap(true, Ordering::AcqRel) || unsafe { libc::pthread_atfork(None, None, Some(forget)) } == 0
}

extern "C" fn forget() {
    for place in Place::all() {
        place.pool.store(ptr::null_mut(), Ordering::Release);
    }
}
