//! What stands around every function that C calls: no panic gets past it, and what is refused is
//! logged.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::call_error::CallError;
use crate::log::{self, Level};

/// Runs `body`; 0, or the errno of what went wrong, with a line in the log.
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<(), CallError>) -> c_int {
    match attempt(body) {
        Ok(()) => 0,
        Err(call_error) => {
            report(function, &call_error);
            call_error.errno()
        }
    }
}

/// Runs `body`; a panic becomes [`CallError::Panicked`].
#[inline]
pub(crate) fn attempt<T>(body: impl FnOnce() -> Result<T, CallError>) -> Result<T, CallError> {
    // What a panic leaves half done is guarded by locks that are taken over as they are: their data
    // is changed by single inserts and removals only.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(CallError::Panicked))
}

/// The refusal and its causes on one line.
#[cold]
pub(crate) fn report(function: &str, call_error: &CallError) {
    if !log::listening(Level::Error) {
        return;
    }
    let words = gpu::sentence(call_error);
    log::say(
        Level::Error,
        format_args!("{function}: {words} (errno {})", call_error.errno()),
    );
}
