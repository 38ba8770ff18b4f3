//! What stands around every function that C calls: no panic gets past it, and what is refused is logged.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::log::{self, Level};
use crate::refusal::Refusal;

/// Runs `body`; 0, or the errno of what went wrong, with a line in the log.
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<(), Refusal>) -> c_int {
    match attempt(body) {
        Ok(()) => 0,
        Err(refusal) => {
            report(function, &refusal);
            refusal.errno()
        }
    }
}

/// Runs `body`; a panic becomes [`Refusal::Panicked`].
#[inline]
pub(crate) fn attempt<T>(body: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
    // What a panic leaves half done is guarded by locks that are taken over as they are: their data is changed by single
    // inserts and removals only.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Refusal::Panicked))
}

/// The refusal and its causes on one line.
#[cold]
pub(crate) fn report(function: &str, refusal: &Refusal) {
    if !log::listening(Level::Error) {
        return;
    }
    let words = gpu::sentence(refusal);
    log::say(
        Level::Error,
        format_args!("{function}: {words} (errno {})", refusal.errno()),
    );
}
