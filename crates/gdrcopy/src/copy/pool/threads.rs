//! Helper threads: start, polling, sleep and wake-up.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Builder, available_parallelism};

use super::{ASLEEP, Cpus, MAX_THREADS, Pool, now};

/// How often the helpers' CPUs may change, in nanoseconds: it takes a system call for each.
const REBIND_INTERVAL: u64 = 10_000_000;

/// Number of helpers that the caller's CPUs and the container's quota allow. Moves the helpers to
/// the caller's CPUs, those near the hint if there are enough. The caller has taken the pool.
pub(super) fn available(pool: &'static Pool, hint: &Cpus, time: u64) -> usize {
    let cpus = Cpus::of_caller();
    if cpus.count() < 2 {
        return 0;
    }
    let cpus = cpus.near(hint, 2);
    let bound = pool.bound.load(Ordering::Relaxed);
    if pool.cpus.get() != cpus {
        if bound != 0 && time.saturating_sub(bound) < REBIND_INTERVAL {
            return 0;
        }
        bind(pool, &cpus, time);
    }
    pool.allowed.load(Ordering::Relaxed).saturating_sub(1) as usize
}

#[cold]
fn bind(pool: &Pool, cpus: &Cpus, time: u64) {
    pool.bound.store(time.max(1), Ordering::Relaxed);
    // It reads the quota of the control group, and counts the caller's CPUs.
    let allowed = available_parallelism().map_or(1, usize::from);
    let allowed = allowed.min(cpus.count()).min(MAX_THREADS);
    pool.allowed.store(allowed as u32, Ordering::Relaxed);
    pool.cpus.set(cpus);
    // A helper stores its ID before it reads the CPUs, so it is found here or reads the new ones.
    for seat in &pool.seats {
        let thread = seat.0.thread.load(Ordering::SeqCst);
        if thread != 0 {
            cpus.bind(thread);
        }
    }
}

/// Starts those of the requested helpers that do not run: helper 0 is created here, by it the
/// others, while the caller copies. Returns how many run, and how many run or start.
pub(super) fn request(pool: &'static Pool, helpers: usize) -> (usize, usize) {
    let running = pool.helpers.0.load(Ordering::Relaxed) as usize;
    if running < helpers && pool.full.load(Ordering::Relaxed) == 0 {
        let before = pool.wanted.fetch_max(helpers as u32, Ordering::Relaxed);
        if before == 0 {
            stay_loaded();
            if !with_signals_blocked(|| spawn(pool, 0)) {
                pool.full.store(1, Ordering::Relaxed);
            }
        }
    }
    let running = running.min(helpers);
    let is_full = pool.full.load(Ordering::Relaxed) != 0;
    (running, if is_full { running } else { helpers })
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

/// Creates the helpers that copies can use and that do not exist yet. Runs in helper 0, whose
/// signal mask they inherit.
fn create_the_others(pool: &'static Pool) {
    let mut running = pool.helpers.0.load(Ordering::Relaxed);
    while running < pool.wanted.load(Ordering::Relaxed) && pool.full.load(Ordering::Relaxed) == 0 {
        if spawn(pool, running as usize) {
            running += 1;
            pool.helpers.0.store(running, Ordering::Relaxed);
        } else {
            pool.full.store(1, Ordering::Relaxed);
        }
    }
}

/// Life of a helper, as long as that of the process.
fn help(pool: &'static Pool, seat: usize) -> ! {
    // glibc has the function since 2.30.
    // SAFETY: gettid has no arguments.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    pool.seats[seat].0.thread.store(thread as u32, Ordering::SeqCst);
    pool.cpus.get().bind(0);
    if seat == 0 {
        pool.helpers.0.store(1, Ordering::Relaxed);
    }
    let mut idle_since = now();
    let mut turns = 0_u32;
    loop {
        if pool.job.wants(seat) {
            // First, because the job has parts for them.
            if seat == 0 {
                create_the_others(pool);
            }
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
            if pool.job.wants(seat) {
                pool.wake(pool.job.helpers(), 2);
            }
            idle_since = now();
        }
    }
}

/// Sleeps until woken, unless a job is announced already.
fn sleep(pool: &Pool, seat: usize) {
    let word = &pool.seats[seat].0.asleep;
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

fn spawn(pool: &'static Pool, seat: usize) -> bool {
    // Kernels need almost no stack; the runtime adds thread-local storage.
    Builder::new()
        .name("gdr-copy".to_owned())
        .stack_size(64 << 10)
        .spawn(move || help(pool, seat))
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
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
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
    let here = wake as fn(&AtomicU32) as *const c_void;
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills the structure if it returns nonzero, and its name is then a string of
    // the loader; dlopen with RTLD_NOLOAD only changes flags of the loaded library, and its
    // reference is kept.
    unsafe {
        if libc::dladdr(here, found.as_mut_ptr()) != 0 {
            let name = found.assume_init().dli_fname;
            libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}
