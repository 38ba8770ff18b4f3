//! Helper threads: start, polling, sleep and wake-up.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Builder, available_parallelism};

use super::{ASLEEP, Cpus, FRESH, MOST_THREADS, NO_HELPERS, Pool, STARTED, now};

/// Requests helpers, once per pool. They start one after another while the caller copies. False if
/// there will be none.
#[cold]
pub(super) fn start(pool: &'static Pool, hint: &Cpus) -> bool {
    let cpus = Cpus::of_process().near(hint, 2);
    let state = if cpus.count() < 2 {
        NO_HELPERS
    } else {
        STARTED
    };
    match pool
        .state
        .compare_exchange(FRESH, state, Ordering::AcqRel, Ordering::Acquire)
    {
        Err(other) => return other == STARTED,
        Ok(_) if state == NO_HELPERS => return false,
        Ok(_) => {}
    }
    stay_loaded();
    let started = with_signals_blocked(|| {
        spawn(move || {
            cpus.bind_this_thread();
            if seat_the_others(pool) {
                help(pool, 0);
            }
            pool.state.store(NO_HELPERS, Ordering::Release);
        })
    });
    if !started {
        pool.state.store(NO_HELPERS, Ordering::Release);
    }
    started
}

/// Wakes the helper that sleeps on this word.
pub(super) fn wake(seat: &AtomicU32) {
    // SAFETY: the word lives as long as the process; the kernel only looks for sleepers on it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            seat.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}

/// Starts helpers 1 and up, as many as CPUs beside the caller's. Runs in helper 0, whose CPUs and
/// signal mask they inherit and which respects a container's CPU quota. False if the quota allows
/// one thread only.
fn seat_the_others(pool: &'static Pool) -> bool {
    let threads = available_parallelism()
        .map_or(1, usize::from)
        .min(MOST_THREADS);
    if threads < 2 {
        return false;
    }
    pool.helpers.0.store(1, Ordering::Relaxed);
    for seat in 1..threads - 1 {
        if !spawn(move || help(pool, seat)) {
            break;
        }
        pool.helpers.0.store(seat as u32 + 1, Ordering::Relaxed);
    }
    true
}

/// Loop of a helper, which runs as long as the process.
fn help(pool: &'static Pool, seat: usize) -> ! {
    let mut idle_since = now();
    let mut turns = 0_u32;
    loop {
        if pool.job.wants(seat) {
            // SAFETY: the announcing thread keeps the job's memory valid until every part is done.
            unsafe { pool.job.take_part() };
            idle_since = now();
        }
        std::hint::spin_loop();
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(32)
            && now().saturating_sub(idle_since) > pool.linger.load(Ordering::Relaxed)
        {
            sleep(pool, seat);
            // The caller wakes only some helpers; each of these wakes two more.
            pool.wake(pool.job.helpers(), 2);
            idle_since = now();
        }
    }
}

/// Sleeps until woken, unless a job is announced already.
fn sleep(pool: &Pool, seat: usize) {
    let word = &pool.seats[seat].0;
    pool.sleepers.fetch_add(1, Ordering::SeqCst);
    word.store(ASLEEP, Ordering::SeqCst);
    if !pool.job.wants(seat) {
        while word.load(Ordering::SeqCst) == ASLEEP {
            let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word lives as long as the process. No timeout.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    wait,
                    ASLEEP,
                    std::ptr::null::<libc::timespec>(),
                )
            };
        }
    }
    word.store(0, Ordering::SeqCst);
    pool.sleepers.fetch_sub(1, Ordering::SeqCst);
}

fn spawn(life: impl FnOnce() + Send + 'static) -> bool {
    // Kernels need almost no stack; the runtime adds thread-local storage.
    Builder::new()
        .name("gdr-copy".to_owned())
        .stack_size(64 << 10)
        .spawn(life)
        .is_ok()
}

/// Runs `act` with all signals blocked except those of faults: a blocked fault would end the
/// process without calling its handler.
fn with_signals_blocked<T>(act: impl FnOnce() -> T) -> T {
    let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset fills the set, the others take it filled; pthread_sigmask fills the old
    // one before it is used.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for fault in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
        ] {
            libc::sigdelset(blocked.as_mut_ptr(), fault);
        }
        let masked =
            libc::pthread_sigmask(libc::SIG_SETMASK, blocked.as_ptr(), before.as_mut_ptr()) == 0;
        let result = act();
        if masked {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
        result
    }
}

/// Keeps the library of this code loaded after dlclose, because helpers never return from it.
fn stay_loaded() {
    let here = start as fn(&'static Pool, &Cpus) -> bool as *const c_void;
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills the structure if it returns nonzero, and its name is then a string of
    // the loader; dlopen with RTLD_NOLOAD only changes flags of the loaded library, and its
    // reference is kept.
    unsafe {
        if libc::dladdr(here, found.as_mut_ptr()) != 0 {
            let name = found.assume_init().dli_fname;
            libc::dlopen(
                name,
                libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            );
        }
    }
}
