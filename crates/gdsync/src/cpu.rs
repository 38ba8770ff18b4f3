//! Executes memory operations on the CPU instead of a stream. Every wait has a timeout, and long
//! waits use little CPU time.

use std::time::{Duration, Instant};

use gpu::{Compare, MemOp};

/// Polls between timeout checks.
const POLLS: u32 = 1024;
/// After this time a wait yields the CPU between polls.
const SPIN: Duration = Duration::from_micros(200);
/// After this time a wait sleeps between polls.
const YIELD: Duration = Duration::from_millis(2);
/// A sleep lasts the time waited divided by this, at most [`LONGEST_SLEEP`].
const SLEEP_SHARE: u32 = 32;
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Limits of a wait: timeout and cancellation.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    timeout: Duration,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Bounds<'static> {
    /// Limits each wait to `timeout`.
    #[must_use]
    pub fn of(timeout: Duration) -> Self {
        let is_cancelled = &|| false;
        Self { timeout, is_cancelled }
    }
}

impl<'a> Bounds<'a> {
    /// Also ends a wait once this returns true. Called every few microseconds at first, later every
    /// millisecond.
    #[must_use]
    pub fn cancelled_by(self, is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self { is_cancelled, ..self }
    }
}

/// A word that the CPU can access. Loads acquire, stores release.
pub trait CpuWord {
    /// Why an access failed.
    type Error: From<Stopped>;

    /// Loads 32 bits.
    ///
    /// # Errors
    ///
    /// Those of the implementation.
    fn load32(&self) -> Result<u32, Self::Error>;
    /// Loads 64 bits.
    ///
    /// # Errors
    ///
    /// Those of the implementation.
    fn load64(&self) -> Result<u64, Self::Error>;
    /// Stores 32 bits.
    ///
    /// # Errors
    ///
    /// Those of the implementation.
    fn store32(&self, value: u32) -> Result<(), Self::Error>;
    /// Stores 64 bits in one access.
    ///
    /// # Errors
    ///
    /// Those of the implementation.
    fn store64(&self, value: u64) -> Result<(), Self::Error>;
    /// Makes earlier writes visible to CPUs and devices before later ones.
    fn barrier();
}

/// Why the CPU did not finish a list. Operations before `step` are done, later ones are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// A wait timed out.
    #[error("step {step}: after {} ms the word is {seen:#x}, which is not {compare:?} {value:#x}", .waited.as_millis())]
    TimedOut {
        /// The operation, counted from 0.
        step: usize,
        /// The word's last value.
        seen: u64,
        /// The comparison.
        compare: Compare,
        /// Its right-hand side.
        value: u64,
        /// How long the wait took.
        waited: Duration,
    },
    /// A wait was cancelled.
    #[error("step {step}: the wait was cancelled")]
    Cancelled {
        /// The operation, counted from 0.
        step: usize,
    },
}

/// Executes the operations in order.
///
/// # Errors
///
/// [`Stopped`], or the error of a word.
pub fn run<W: CpuWord>(ops: &[MemOp<W>], bounds: Bounds<'_>) -> Result<(), W::Error> {
    for (step, op) in ops.iter().enumerate() {
        match op {
            MemOp::Write32 { at, value } => at.store32(*value)?,
            MemOp::Write64 { at, value } => at.store64(*value)?,
            MemOp::Wait32 { at, value, compare, .. } => {
                wait(step, (*compare, u64::from(*value)), bounds, || {
                    let holds = |seen| (u64::from(seen), compare.holds32(seen, *value));
                    at.load32().map(holds)
                })?
            }
            MemOp::Wait64 { at, value, compare, .. } => {
                wait(step, (*compare, *value), bounds, || {
                    at.load64().map(|seen| (seen, compare.holds64(seen, *value)))
                })?
            }
            // Nothing to do: PCIe writes are ordered, so data written before the polled word is visible.
            MemOp::FlushRemoteWrites => {}
            MemOp::Barrier => W::barrier(),
        }
    }
    Ok(())
}

fn wait<E: From<Stopped>>(
    step: usize,
    (compare, value): (Compare, u64),
    bounds: Bounds<'_>,
    mut poll: impl FnMut() -> Result<(u64, bool), E>,
) -> Result<(), E> {
    let mut start = None;
    let mut polls = 0_u32;
    let mut is_quick = true;
    loop {
        let (seen, holds) = poll()?;
        if holds {
            return Ok(());
        }
        polls = polls.wrapping_add(1);
        if is_quick && !polls.is_multiple_of(POLLS) {
            std::hint::spin_loop();
            continue;
        }
        let waited = start.get_or_insert_with(Instant::now).elapsed();
        if (bounds.is_cancelled)() {
            return Err(Stopped::Cancelled { step }.into());
        }
        if waited >= bounds.timeout {
            let timed_out = Stopped::TimedOut { step, seen, compare, value, waited };
            return Err(timed_out.into());
        }
        is_quick = waited <= SPIN;
        if waited > YIELD {
            let left = bounds.timeout - waited;
            std::thread::sleep((waited / SLEEP_SHARE).min(LONGEST_SLEEP).min(left));
        } else if !is_quick {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    type Op<'a> = MemOp<&'a AtomicU64>;

    impl CpuWord for &AtomicU64 {
        type Error = Stopped;

        fn load32(&self) -> Result<u32, Stopped> {
            Ok(self.load(Ordering::Acquire) as u32)
        }
        fn load64(&self) -> Result<u64, Stopped> {
            Ok(self.load(Ordering::Acquire))
        }
        fn store32(&self, value: u32) -> Result<(), Stopped> {
            self.store64(value.into())
        }
        fn store64(&self, value: u64) -> Result<(), Stopped> {
            self.store(value, Ordering::Release);
            Ok(())
        }
        fn barrier() {}
    }

    fn write(at: &AtomicU64, value: u64) -> Op<'_> {
        MemOp::Write64 { at, value }
    }

    fn wait_for(at: &AtomicU64, value: u32) -> Op<'_> {
        MemOp::Wait32 { at, value, compare: Compare::Eq, flush: true }
    }

    #[test]
    fn two_lists_synchronize() {
        let (one, two) = (AtomicU64::new(0), AtomicU64::new(0));
        let wait64 =
            MemOp::Wait64 { at: &two, value: 1 << 40, compare: Compare::Geq, flush: false };
        let write32 = MemOp::Write32 { at: &one, value: 3 };
        let first = [write32, wait64, MemOp::Barrier, write(&one, 4)];
        let second = [wait_for(&one, 3), MemOp::FlushRemoteWrites, write(&two, 1 << 40)];
        std::thread::scope(|scope| {
            let bounds = || Bounds::of(Duration::from_secs(60));
            scope.spawn(move || run(&second, bounds()).expect("done"));
            run(&first, bounds()).expect("done");
        });
        assert_eq!((one.into_inner(), two.into_inner()), (4, 1 << 40));
    }

    #[test]
    fn timeout_stops_the_list() {
        let (word, other) = (AtomicU64::new(5), AtomicU64::new(0));
        let list = [write(&other, 1), wait_for(&word, 6), write(&other, 2)];
        let stopped = run(&list, Bounds::of(Duration::from_millis(5)));
        let Err(Stopped::TimedOut { step: 1, seen: 5, value: 6, .. }) = stopped else {
            panic!("{stopped:?}");
        };
        assert_eq!(other.into_inner(), 1);
    }

    #[test]
    fn cancellation_stops_the_list() {
        let (word, other) = (AtomicU64::new(5), AtomicU64::new(0));
        let list = [wait_for(&word, 6), write(&other, 2)];
        let start = Instant::now();
        let is_over = || start.elapsed() > Duration::from_millis(10);
        let bounds = Bounds::of(Duration::from_secs(60)).cancelled_by(&is_over);
        assert_eq!(run(&list, bounds), Err(Stopped::Cancelled { step: 0 }));
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(other.into_inner(), 0);
    }
}
