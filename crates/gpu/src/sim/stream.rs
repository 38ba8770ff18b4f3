//! What a simulated stream's thread does with each piece of work.

use std::sync::atomic::{Ordering, fence};

use super::event::State;
use super::faults::Late;
use super::queue::{Item, Operation, Queue};
use crate::bytes;

impl Item {
    /// Does it, or says why it never will be done; what a fault leaves for later goes to `late`.
    pub(super) fn perform(self, queue: &Queue, late: &mut Late) -> Result<(), String> {
        match self {
            Self::Copy {
                to,
                from,
                bytes,
                flaw,
            } => {
                // SAFETY: both spans were found to be that long when the work was put in, and are kept.
                unsafe {
                    match flaw {
                        None => bytes::copy(to.start, from.start, bytes),
                        Some(flaw) => flaw.copy(&to, &from, bytes, late),
                    }
                }
                fence(Ordering::SeqCst);
                Ok(())
            }
            Self::FillBytes { to, value, bytes } => {
                // SAFETY: as above.
                unsafe { bytes::fill(to.start, value, bytes) };
                Ok(())
            }
            Self::FillWords { to, value, words } => {
                for position in 0..words {
                    // SAFETY: as above; the address was found to be a multiple of 4.
                    unsafe { bytes::store32(to.start.add(position * 4), value) };
                }
                Ok(())
            }
            Self::Signal(record) => {
                fence(Ordering::SeqCst);
                record.done();
                Ok(())
            }
            Self::Await(record) => {
                let mut end = State::Pending;
                queue.wait_until(
                    || "an event of another stream".to_owned(),
                    || {
                        end = record.state();
                        !matches!(end, State::Pending)
                    },
                )?;
                match end {
                    State::Abandoned(why) => {
                        Err(format!("it waits for an event that will not happen: {why}"))
                    }
                    State::Pending | State::Done(_) => Ok(()),
                }
            }
            Self::Operations(operations) => operations
                .iter()
                .try_for_each(|operation| operation.perform(queue)),
            Self::Launch(kernel) => kernel.run(queue),
        }
    }
}

impl Operation {
    fn perform(&self, queue: &Queue) -> Result<(), String> {
        match self {
            Self::Write32 { to, value } => {
                // What was written before is seen before: the default write has a fence in front.
                fence(Ordering::SeqCst);
                // SAFETY: the span is 4 bytes at a multiple of 4, and is kept.
                unsafe { bytes::store32(to.start, *value) };
                fence(Ordering::SeqCst);
                Ok(())
            }
            Self::Write64 { to, value } => {
                fence(Ordering::SeqCst);
                // SAFETY: as above, of 8.
                unsafe { bytes::store64(to.start, *value) };
                fence(Ordering::SeqCst);
                Ok(())
            }
            Self::Wait32 { on, value, compare } => {
                // SAFETY: the span is 4 bytes at a multiple of 4, and is kept.
                let load = || unsafe { bytes::load32(on.start) };
                let what = || {
                    let seen = load();
                    format!("a 32-bit word to be {compare:?} {value:#x}; it is {seen:#x}")
                };
                queue.wait_until(what, || compare.holds32(load(), *value))
            }
            Self::Wait64 { on, value, compare } => {
                // SAFETY: as above, of 8.
                let load = || unsafe { bytes::load64(on.start) };
                let what = || {
                    let seen = load();
                    format!("a 64-bit word to be {compare:?} {value:#x}; it is {seen:#x}")
                };
                queue.wait_until(what, || compare.holds64(load(), *value))
            }
            Self::Fence => {
                fence(Ordering::SeqCst);
                Ok(())
            }
        }
    }
}
