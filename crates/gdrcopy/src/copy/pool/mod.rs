//! Threads that help with large copies: started at the first one, gone to sleep soon after the last.
//!
//! Nothing waits for a helper that has not begun: the caller copies too, part by part, and helpers take the parts they are
//! in time for. While one copy has the pool, others copy alone. Helpers block signals (but for faults), are never joined,
//! touch nothing but the pool and the memory of the copy, and keep the library that holds their code loaded.
//!
//! A pool lives in pages that the kernel wipes in the child of a fork, and whose place forgets them there. All zero means
//! "not started", so a child simply starts its own, whatever the parent's threads were doing. The kernel's wiping (Linux
//! 4.14) sees to children made without the C library, the forgetting to kernels and emulators that do not wipe.

mod cpus;
mod cut;
mod job;
mod threads;

use std::mem;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

pub use cpus::Cpus;
pub(crate) use job::{Direction, Job};
use job::{Line, Shared};

/// Threads that copy together at most, the caller included. 16 of them read 15.7 GB/s from an H200; the next doubling
/// would take as many CPUs again from the program whose copy this is.
pub(crate) const MOST_THREADS: usize = 16;

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

/// One pool, in pages of its own. All zero is its first state.
#[repr(C)]
struct Pool {
    state: AtomicU32,
    /// 1 while some thread's copy has the pool.
    taken: AtomicU32,
    /// When the last shared copy ended, in nanoseconds of the monotonic clock.
    last: AtomicU64,
    /// How long helpers look for the next job before they sleep, in nanoseconds.
    linger: AtomicU64,
    /// Helpers that run or sleep.
    helpers: Line<AtomicU32>,
    sleepers: AtomicU32,
    job: Shared,
    seats: [Line<AtomicU32>; MOST_THREADS - 1],
}

/// `Pool::state`: nobody has asked yet.
const FRESH: u32 = 0;
/// Helpers have been asked for, or are there.
const STARTED: u32 = 1;
/// One CPU, or no thread to be had.
const NO_HELPERS: u32 = 2;

/// A seat's helper sleeps, and is to be woken through the seat's word.
const ASLEEP: u32 = 1;

/// Below this, waking helpers (2 to 3 µs of the caller's time for each, and 50 to 100 µs until it runs, in a virtual machine)
/// gains nothing, unless copies follow one another: then they are woken once for many.
const WAKE_FROM: Work = Work {
    write: 512 << 10,
    read: 16 << 10,
};

/// Helpers that the caller wakes itself; those wake the rest.
const WOKEN_BY_CALLER: usize = 8;

/// Copies that follow each other within this time are a burst, in nanoseconds.
const BURST: u64 = 200_000;

/// Helpers look for the next job this long at least, in nanoseconds.
const LINGER: u64 = 100_000;
/// And this long at most.
const LONGEST_LINGER: u64 = 2_000_000;

/// A figure for each direction.
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
        let Some(pool) = self.pool() else { return false };
        if threads < 2 || !pool.is_started(self) || pool.taken.swap(1, Ordering::Acquire) != 0 {
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

impl Pool {
    /// Zeroed pages that a child of fork gets zeroed again, if it does not forget them.
    fn map(is_forgotten: bool) -> Option<NonNull<Pool>> {
        let (size, flags) = (mem::size_of::<Pool>(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address the kernel chooses.
        let pages = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if pages == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the pages just made.
        let is_wiped = unsafe { libc::madvise(pages, size, libc::MADV_WIPEONFORK) } == 0;
        if !is_wiped && !is_forgotten {
            // SAFETY: as above, and nobody knows of them.
            unsafe { libc::munmap(pages, size) };
            return None;
        }
        NonNull::new(pages.cast())
    }

    /// Whether there are helpers or soon will be; asks for them the first time.
    #[inline]
    fn is_started(&'static self, place: &'static Place) -> bool {
        match self.state.load(Ordering::Acquire) {
            STARTED => true,
            FRESH => threads::start(self, &place.hint),
            _ => false,
        }
    }

    /// # Safety
    /// As [`Place::copy`]; the caller has taken the pool.
    unsafe fn share(&self, job: &Job, helpers: usize) -> bool {
        let pause = now().saturating_sub(self.last.load(Ordering::Relaxed));
        let worth_waking = job.len >= WAKE_FROM.of(job.direction) || pause < BURST;
        let all_asleep = self.sleepers.load(Ordering::Relaxed) >= self.helpers.0.load(Ordering::Relaxed);
        if all_asleep && !worth_waking {
            self.last.store(now(), Ordering::Relaxed);
            return false;
        }
        self.linger
            .store(linger(self.linger.load(Ordering::Relaxed), pause), Ordering::Relaxed);
        let (least, helpers) = shares(job, helpers);
        let parts = self.job.announce(job, least, helpers);
        if worth_waking && self.sleepers.load(Ordering::SeqCst) != 0 {
            self.wake(helpers, WOKEN_BY_CALLER);
        }
        // SAFETY: the caller keeps the memory valid until this function returns.
        unsafe { self.job.take_part() };
        let mut turns = 0_u32;
        while !self.job.is_done(parts) {
            std::hint::spin_loop();
            turns += 1;
            // A helper that was interrupted in its part may need this CPU to end it.
            if turns.is_multiple_of(4096) {
                std::thread::yield_now();
            }
        }
        self.last.store(now(), Ordering::Relaxed);
        true
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

/// How long helpers wait for the next copy: twice as long as a recent pause, so that a program that copies at a steady
/// pace finds them awake. What was recent fades with each copy, and is forgotten where a pause was longer than any wait.
fn linger(before: u64, pause: u64) -> u64 {
    if pause < LONGEST_LINGER {
        (2 * pause).max(before - before / 64).clamp(LINGER, LONGEST_LINGER)
    } else {
        LINGER
    }
}

/// How a job is shared: (bytes of its smallest parts, helpers worth having).
fn shares(job: &Job, helpers: usize) -> (usize, usize) {
    let (least, most) = match job.direction {
        // The bus takes 34 GB/s of stores, from two threads where the source is in their caches, from six where it is in
        // memory. Each part ends with draining buffers, so short copies have as many parts as threads.
        Direction::Write if job.len < 128 << 10 => (32 << 10, 1),
        Direction::Write => (16 << 10, 5),
        Direction::Read | Direction::OrderedRead => (4 << 10, MOST_THREADS - 1),
    };
    (least, helpers.min(most).min(job.len.div_ceil(least).saturating_sub(1)))
}

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills in the structure it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
