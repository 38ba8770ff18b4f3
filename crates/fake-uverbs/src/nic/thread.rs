//! The NIC's thread: runs while a device is open, and sleeps when idle.

use std::ptr::null_mut;
use std::thread::{Builder, sleep, yield_now};
use std::time::Duration;

use crate::nic::objects;

/// Idle rounds before short and before long sleeps.
const BUSY: u32 = 100;
const AWAKE: u32 = 2000;

/// Starts the thread; true on success. The caller holds the objects's lock, for which the thread waits.
pub fn start() -> bool {
    let mut before = no_signals();
    // SAFETY: two local signal sets. All signals are blocked in the new thread, which inherits the mask, because they are the program's.
    unsafe {
        libc::sigfillset(&mut before);
        let all = before;
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let started = Builder::new().name("fake-uverbs".into()).spawn(run);
    // SAFETY: restores this thread's mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) };
    if started.is_err() {
        crate::log("the NIC's thread cannot be started: nothing will be executed");
    }
    started.is_ok()
}

fn no_signals() -> libc::sigset_t {
    // SAFETY: a bit set: all zeros is valid.
    unsafe { std::mem::zeroed() }
}

fn run() {
    let mut idle = 0_u32;
    loop {
        let has_moved = {
            let mut objects = objects();
            if objects.contexts.is_empty() {
                objects.is_running = false;
                return;
            }
            objects.run_once()
        };
        idle = if has_moved { 0 } else { idle.saturating_add(1) };
        match idle {
            // Also when busy: a command waits for the same lock.
            0..BUSY => yield_now(),
            BUSY..AWAKE => sleep(Duration::from_micros(20)),
            _ => sleep(Duration::from_micros(200)),
        }
    }
}
