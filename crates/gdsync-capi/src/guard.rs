//! What stands around every function that C calls: no panic gets past it, and what is refused is told.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::log::{self, Level};
use crate::refusal::Refusal;

/// Runs `body`; 0, or the errno of what went wrong, with a line in the log.
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<(), Refusal>) -> c_int {
    // What a panic leaves half done is guarded by locks that are taken over as they are: their data is changed by single
    // inserts and removals only.
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Refusal::Panicked)) {
        Ok(()) => 0,
        Err(refusal) => {
            let words = gpu::sentence(&refusal);
            log::say(
                Level::Error,
                function,
                format_args!("{words} (errno {})", refusal.errno()),
            );
            refusal.errno()
        }
    }
}
