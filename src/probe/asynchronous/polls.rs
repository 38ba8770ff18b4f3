//! Polls that yield the CPU: with few CPUs, a thread that only spins keeps the thread it waits for from running.

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::probe::failure::StepError;

/// Polls between yields of the CPU.
const POLLS: u32 = 1024;
/// With fewer CPUs than this it yields more often.
const MANY_CPUS: usize = 8;
const FEW_CPU_POLLS: u32 = 4;

static BETWEEN_YIELDS: LazyLock<u32> = LazyLock::new(|| match thread::available_parallelism() {
    Ok(cpus) if cpus.get() >= MANY_CPUS => POLLS,
    _ => FEW_CPU_POLLS,
});

/// The polls of one wait.
#[derive(Debug, Default)]
pub struct Polls(u32);

impl Polls {
    /// Pauses after a poll that found nothing. True if it has yielded the CPU: the caller then checks the clock.
    pub fn pause(&mut self) -> bool {
        self.0 = self.0.wrapping_add(1);
        std::hint::spin_loop();
        let is_long = self.0.is_multiple_of(*BETWEEN_YIELDS);
        if is_long {
            thread::yield_now();
        }
        is_long
    }
}

/// Polls until `done` returns true; false after the timeout.
pub fn until(
    timeout: Duration,
    mut done: impl FnMut() -> Result<bool, StepError>,
) -> Result<bool, StepError> {
    let begun = Instant::now();
    let mut polls = Polls::default();
    while !done()? {
        if polls.pause() && begun.elapsed() > timeout {
            return Ok(false);
        }
    }
    Ok(true)
}
