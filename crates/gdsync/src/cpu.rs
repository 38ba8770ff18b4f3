//! Executes a descriptor list on the CPU in place of a stream, step by step. Every wait has a
//! timeout, and long waits use little CPU time.

use std::time::{Duration, Instant};

use gpu::Compare;

use crate::descriptor::Step;

/// Polls between timeout checks.
const LOOKS: u32 = 1024;
/// After this time a wait yields the CPU between polls.
const SPIN: Duration = Duration::from_micros(200);
/// After this time a wait sleeps between polls.
const YIELD: Duration = Duration::from_millis(2);
/// Upper limit of one sleep, which is otherwise a share of the time waited.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
const SLEEP_SHARE: u32 = 32;

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
        Self {
            timeout,
            is_cancelled,
        }
    }
}

impl<'a> Bounds<'a> {
    /// Also ends a wait once this returns true. Called every few microseconds at first, later every
    /// millisecond.
    #[must_use]
    pub fn cancelled_by(self, is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            is_cancelled,
            ..self
        }
    }
}

/// CPU access to words. Loads acquire, stores release.
pub trait Reach<A> {
    /// The error of a failed access.
    type Error;

    /// Loads 32 bits.
    ///
    /// # Errors
    ///
    /// Defined by the implementation.
    fn load32(&self, at: A) -> Result<u32, Self::Error>;
    /// Loads 64 bits.
    ///
    /// # Errors
    ///
    /// As [`Self::load32`].
    fn load64(&self, at: A) -> Result<u64, Self::Error>;
    /// Stores 32 bits.
    ///
    /// # Errors
    ///
    /// As [`Self::load32`].
    fn store32(&self, at: A, value: u32) -> Result<(), Self::Error>;
    /// Stores 64 bits in one access.
    ///
    /// # Errors
    ///
    /// As [`Self::load32`].
    fn store64(&self, at: A, value: u64) -> Result<(), Self::Error>;
    /// Makes earlier writes visible to devices before later ones.
    fn barrier(&self);
}

/// Why a list did not run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undone<E> {
    /// A word access failed.
    #[error(transparent)]
    Word(E),
    /// A wait timed out; later steps did not run.
    #[error("step {step}: after {} ms the word is {seen:#x}, which is not {compare:?} {value:#x}", .waited.as_millis())]
    Late {
        /// Index of the step, from 0.
        step: usize,
        /// The last value read.
        seen: u64,
        /// The comparison.
        compare: Compare,
        /// The value compared with.
        value: u64,
        /// Time waited.
        waited: Duration,
    },
    /// A wait was cancelled; later steps did not run.
    #[error("step {step}: the wait was cancelled")]
    Cancelled {
        /// Index of the step, from 0.
        step: usize,
    },
}

/// Runs the steps.
///
/// # Errors
///
/// [`Undone`]: the steps before the failed one have run.
pub fn run<A: Copy, R: Reach<A>>(
    steps: &[Step<A>],
    words: &R,
    bounds: Bounds<'_>,
) -> Result<(), Undone<R::Error>> {
    for (position, step) in steps.iter().enumerate() {
        match *step {
            Step::Write32(at, value) => words.store32(at, value).map_err(Undone::Word)?,
            Step::Write64(at, value) => words.store64(at, value).map_err(Undone::Word)?,
            Step::Wait32(at, value, compare, _) => {
                wait(position, (compare, value.into()), bounds, || {
                    let seen = words.load32(at)?;
                    Ok((seen.into(), compare.holds32(seen, value)))
                })?
            }
            Step::Wait64(at, value, compare, _) => {
                wait(position, (compare, value), bounds, || {
                    let seen = words.load64(at)?;
                    Ok((seen, compare.holds64(seen, value)))
                })?
            }
            // PCIe writes are ordered: the CPU already sees the device's earlier writes.
            Step::Flush => {}
            Step::Barrier => words.barrier(),
        }
    }
    Ok(())
}

fn wait<E>(
    step: usize,
    (compare, value): (Compare, u64),
    bounds: Bounds<'_>,
    mut look: impl FnMut() -> Result<(u64, bool), E>,
) -> Result<(), Undone<E>> {
    let mut begun = None;
    let mut looks = 0_u32;
    let mut is_quick = true;
    loop {
        let (seen, holds) = look().map_err(Undone::Word)?;
        if holds {
            return Ok(());
        }
        looks = looks.wrapping_add(1);
        if is_quick && !looks.is_multiple_of(LOOKS) {
            std::hint::spin_loop();
            continue;
        }
        let waited = begun.get_or_insert_with(Instant::now).elapsed();
        if (bounds.is_cancelled)() {
            return Err(Undone::Cancelled { step });
        }
        if waited >= bounds.timeout {
            return Err(Undone::Late {
                step,
                seen,
                compare,
                value,
                waited,
            });
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
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    use super::*;

    /// Word 0 has 32 bits, word 1 has 64.
    #[derive(Default)]
    struct Two(AtomicU32, AtomicU64);

    impl Reach<u8> for Two {
        type Error = Infallible;

        fn load32(&self, _: u8) -> Result<u32, Infallible> {
            Ok(self.0.load(Ordering::Acquire))
        }
        fn load64(&self, _: u8) -> Result<u64, Infallible> {
            Ok(self.1.load(Ordering::Acquire))
        }
        fn store32(&self, _: u8, value: u32) -> Result<(), Infallible> {
            self.0.store(value, Ordering::Release);
            Ok(())
        }
        fn store64(&self, _: u8, value: u64) -> Result<(), Infallible> {
            self.1.store(value, Ordering::Release);
            Ok(())
        }
        fn barrier(&self) {}
    }

    #[test]
    fn two_lists_wait_for_each_other() {
        let words = Two::default();
        let one = [
            Step::Write32(0, 3),
            Step::Wait64(1, 9, Compare::Eq, false),
            Step::Barrier,
            Step::Write32(0, 4),
        ];
        let other = [Step::Wait32(0, 3, Compare::Geq, true), Step::Write64(1, 9)];
        std::thread::scope(|scope| {
            scope.spawn(|| run(&other, &words, Bounds::of(Duration::from_secs(60))).expect("done"));
            run(&one, &words, Bounds::of(Duration::from_secs(60))).expect("done");
        });
        assert_eq!((words.0.into_inner(), words.1.into_inner()), (4, 9));
    }

    #[test]
    fn a_wait_that_never_ends_is_told_with_what_it_saw_and_nothing_after_it_is_done() {
        let words = Two(AtomicU32::new(5), AtomicU64::new(0));
        let list = [
            Step::Write64(1, 1),
            Step::Wait32(0, 6, Compare::Eq, false),
            Step::Write64(1, 2),
        ];
        let undone = run(&list, &words, Bounds::of(Duration::from_millis(5)));
        let Err(Undone::Late {
            step: 1,
            seen: 5,
            value: 6,
            ..
        }) = undone
        else {
            panic!("{undone:?}");
        };
        assert_eq!(words.1.into_inner(), 1);
    }

    #[test]
    fn a_wait_that_is_cancelled_ends_and_nothing_after_it_is_done() {
        let words = Two(AtomicU32::new(5), AtomicU64::new(0));
        let list = [Step::Wait32(0, 6, Compare::Eq, false), Step::Write64(1, 2)];
        let begun = Instant::now();
        let is_over = || begun.elapsed() > Duration::from_millis(10);
        let bounds = Bounds::of(Duration::from_secs(60)).cancelled_by(&is_over);
        let undone = run(&list, &words, bounds);
        assert_eq!(undone, Err(Undone::Cancelled { step: 0 }));
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(words.1.into_inner(), 0);
    }
}
