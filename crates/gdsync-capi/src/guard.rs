//! Wrappers of all C functions: catch panics, and log and convert errors.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::call_error::CallError;
use crate::log::{self, Level};

/// Runs `body`. Returns 0 or the errno of its error.
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<(), CallError>) -> c_int {
    number(function, || body().map(|()| 0))
}

/// Runs `body`. Returns its number or the errno of its error.
pub(crate) fn number(
    function: &'static str,
    body: impl FnOnce() -> Result<c_int, CallError>,
) -> c_int {
    run(function, body).unwrap_or_else(|errno| errno)
}

/// Runs `body`. Returns its count or the negated errno.
pub(crate) fn count(
    function: &'static str,
    body: impl FnOnce() -> Result<c_int, CallError>,
) -> c_int {
    run(function, body).unwrap_or_else(|errno| -errno)
}

/// Runs `body`. Returns its pointer, or NULL with `errno` set.
pub(crate) fn pointer<T>(
    function: &'static str,
    body: impl FnOnce() -> Result<*mut T, CallError>,
) -> *mut T {
    run(function, body).unwrap_or_else(|errno| {
        // SAFETY: the pointer to the calling thread's errno is always valid.
        unsafe { *libc::__errno_location() = errno };
        std::ptr::null_mut()
    })
}

fn run<T>(function: &'static str, body: impl FnOnce() -> Result<T, CallError>) -> Result<T, c_int> {
    // Unwind safe: shared data is behind locks and changed only by single inserts and removals.
    let call_error = match catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(CallError::Panicked))
    {
        Ok(result) => return Ok(result),
        Err(call_error) => call_error,
    };
    // Programs post until a queue is full, then poll.
    let level = if call_error.is_expected() { Level::Debug } else { Level::Error };
    let text = gpu::sentence(&call_error);
    log::write(level, function, format_args!("{text} (errno {})", call_error.errno()));
    Err(call_error.errno())
}
