//! Wrappers of the C functions: catch panics, and log and convert errors.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::call_error::CallError;
use crate::log::{self, Level};

/// Runs `body`; returns 0, or logs the error and returns its errno.
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<(), CallError>) -> c_int {
    run(function, body).map_or_else(|errno| errno, |()| 0)
}

/// Runs `body`; returns its pointer, or logs the error, sets `errno` and returns NULL.
pub(crate) fn pointer<T>(
    function: &'static str,
    body: impl FnOnce() -> Result<*mut T, CallError>,
) -> *mut T {
    run(function, body).unwrap_or_else(|errno| {
        // SAFETY: the C library gives every thread an errno that lives as long as the thread.
        unsafe { *libc::__errno_location() = errno };
        std::ptr::null_mut()
    })
}

fn run<T>(function: &'static str, body: impl FnOnce() -> Result<T, CallError>) -> Result<T, c_int> {
    // Data that a panic leaves behind is protected by locks whose poisoning is ignored: it only
    // changes by single inserts and removals.
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(CallError::Panicked));
    result.map_err(|call_error| {
        report(function, &call_error);
        call_error.errno()
    })
}

/// Checks a pointer for NULL.
pub(crate) fn not_null<T>(what: &'static str, pointer: *const T) -> Result<(), CallError> {
    if pointer.is_null() {
        return Err(CallError::Null { what });
    }
    Ok(())
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
