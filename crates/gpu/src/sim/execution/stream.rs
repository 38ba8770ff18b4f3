//! Execution of work items on a stream's thread.

use std::sync::atomic::{Ordering, fence};

use super::event::RecordState;
use super::faults::Late;
use super::queue::{Item, Queue};
use crate::bytes;

impl Item {
    /// Runs the item, or returns why it never will run; late writes of faults go to `late`.
    pub(crate) fn perform(self, queue: &Queue, late: &mut Late) -> Result<(), String> {
        match self {
            Self::Copy { to, from, bytes, flaw } => {
                // SAFETY: both span lengths were checked when the work was enqueued, and the spans
                // are kept alive.
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
                    // SAFETY: as above; the address was checked to be a multiple of 4.
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
                let mut end = RecordState::Pending;
                queue.wait_until(
                    || "an event of another stream".to_owned(),
                    || {
                        end = record.state();
                        !matches!(end, RecordState::Pending)
                    },
                )?;
                match end {
                    RecordState::Abandoned(why) => {
                        Err(format!("it waits for an event that will not happen: {why}"))
                    }
                    RecordState::Pending | RecordState::Done(_) => Ok(()),
                }
            }
            Self::Operations(operations) => operations
                .iter()
                .take_while(|_| !queue.has_failed())
                .try_for_each(|operation| operation.perform(queue)),
            Self::Launch(kernel) => kernel.run(queue),
            Self::Call(function) => {
                function();
                Ok(())
            }
        }
    }
}
