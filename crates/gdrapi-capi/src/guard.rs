//! Wrapper of every C function: catches panics and logs errors.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::call_error::CallError;
use crate::log::{self, Level};

/// Runs `body`; returns 0, or logs the error and returns its errno.
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
    // Data that a panic leaves behind is protected by locks whose poisoning is ignored: it only
    // changes by single inserts and removals.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(CallError::Panicked))
}

/// The error and its causes on one line.
#[cold]
pub(crate) fn report(function: &str, call_error: &CallError) {
    if !log::listening(Level::Error) {
        return;
    }
    let words = gpu::sentence(call_error);
    log::write(Level::Error, format_args!("{function}: {words} (errno {})", call_error.errno()));
}
