//! The NIC's thread: it runs while a device is open, and rests where there is nothing to do.

use std::ptr::null_mut;
use std::thread::{Builder, sleep, yield_now};
use std::time::Duration;

use crate::nic::world;

/// Rounds without work after which it sleeps, and after which it sleeps longer.
const BUSY: u32 = 100;
const AWAKE: u32 = 2000;

/// Starts it; whether it runs. The caller holds the world, so that the thread waits for it.
pub fn start() -> bool {
    let mut before = no_signals();
    // SAFETY: two sets of this thread's, and signals that are the program's own to take, not the NIC's: the new thread has the
    // mask of the one that starts it.
    unsafe {
        libc::sigfillset(&mut before);
        let all = before;
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let started = Builder::new().name("fake-uverbs".into()).spawn(run);
    // SAFETY: the mask that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) };
    if started.is_err() {
        crate::say("the NIC's thread cannot be started: nothing will be executed");
    }
    started.is_ok()
}

fn no_signals() -> libc::sigset_t {
    // SAFETY: bits: zero is a value of each.
    unsafe { std::mem::zeroed() }
}

fn run() {
    let mut idle = 0_u32;
    loop {
        let has_moved = {
            let mut world = world();
            if world.contexts.is_empty() {
                world.is_running = false;
                return;
            }
            world.round()
        };
        idle = if has_moved { 0 } else { idle.saturating_add(1) };
        match idle {
            // Also with work to do: a command waits for the same lock.
            0..BUSY => yield_now(),
            BUSY..AWAKE => sleep(Duration::from_micros(20)),
            _ => sleep(Duration::from_micros(200)),
        }
    }
}
