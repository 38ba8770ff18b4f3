//! The CPU in a stream's place: it does the steps of a list with the same meaning, one after the other. No wait is without an end, and a
//! long one takes next to no CPU time.

use std::time::{Duration, Instant};

use gpu::Compare;

use crate::descriptor::Step;

/// Loads of a word between two readings of the clock.
const LOOKS: u32 = 1024;
/// A wait that lasts longer than this yields the CPU between loads.
const SPIN: Duration = Duration::from_micros(200);
/// One that lasts longer than this sleeps between them.
const YIELD: Duration = Duration::from_millis(2);
/// How long it sleeps: a share of the time it has waited, and no more than this.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);
const SLEEP_SHARE: u32 = 32;

/// What ends a wait whose condition does not come.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    timeout: Duration,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Bounds<'static> {
    /// No wait lasts longer than this.
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
    /// Nor goes on once this says so. It is asked every few microseconds at first, and every millisecond later.
    #[must_use]
    pub fn cancelled_by(self, is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            is_cancelled,
            ..self
        }
    }
}

/// Words as the CPU reaches them. A load is followed, and a store preceded, by what orders it (acquire, release).
pub trait Reach<A> {
    /// Why a word cannot be reached.
    type Error;

    /// Reads 32 bits.
    ///
    /// # Errors
    ///
    /// As the implementation says; so below.
    fn load32(&self, at: A) -> Result<u32, Self::Error>;
    /// Reads 64 bits.
    ///
    /// # Errors
    ///
    /// As above.
    fn load64(&self, at: A) -> Result<u64, Self::Error>;
    /// Writes 32 bits.
    ///
    /// # Errors
    ///
    /// As above.
    fn store32(&self, at: A, value: u32) -> Result<(), Self::Error>;
    /// Writes 64 bits, at once.
    ///
    /// # Errors
    ///
    /// As above.
    fn store64(&self, at: A, value: u64) -> Result<(), Self::Error>;
    /// What was written before is visible to devices too before what is written afterwards.
    fn barrier(&self);
}

/// A list that was not done to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undone<E> {
    /// A word cannot be reached.
    #[error(transparent)]
    Word(E),
    /// A wait lasted too long; what comes after it was not done.
    #[error("step {step}: after {} ms the word is {seen:#x}, which is not {compare:?} {value:#x}", .waited.as_millis())]
    Late {
        /// Which step, from 0.
        step: usize,
        /// What was seen last.
        seen: u64,
        /// How it was compared.
        compare: Compare,
        /// With what.
        value: u64,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A wait was cancelled; what comes after it was not done.
    #[error("step {step}: the wait was cancelled")]
    Cancelled {
        /// Which step, from 0.
        step: usize,
    },
}

/// Does the steps.
///
/// # Errors
///
/// [`Undone`]: what came before it is done.
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
            // To the CPU, what a device wrote before the word it has seen is visible: PCIe writes are in order.
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

    /// Two words: 0 is of 32 bits, 1 of 64.
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
