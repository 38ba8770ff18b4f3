//! What stands around every function that C calls: no panic gets past it, and what is refused is told.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::call_error::CallError;
use crate::log::{self, Level};

/// Runs `body`; 0, or the errno of what went wrong, with a line in the log.
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<(), CallError>) -> c_int {
    match run(function, body) {
        Ok(()) => 0,
        Err(errno) => errno,
    }
}

/// Runs `body`; what it counted, or the errno with a minus.
pub(crate) fn count(
    function: &'static str,
    body: impl FnOnce() -> Result<c_int, CallError>,
) -> c_int {
    run(function, body).unwrap_or_else(|errno| -errno)
}

/// Runs `body`; what it made, or NULL and `errno`.
pub(crate) fn made<T>(
    function: &'static str,
    body: impl FnOnce() -> Result<*mut T, CallError>,
) -> *mut T {
    run(function, body).unwrap_or_else(|errno| {
        // SAFETY: it is the calling thread's own.
        unsafe { *libc::__errno_location() = errno };
        std::ptr::null_mut()
    })
}

fn run<T>(function: &'static str, body: impl FnOnce() -> Result<T, CallError>) -> Result<T, c_int> {
    // What a panic leaves half done is guarded by locks that are taken over as they are: their data is changed by single
    // inserts and removals only.
    let call_error = match catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(CallError::Panicked))
    {
        Ok(result) => return Ok(result),
        Err(call_error) => call_error,
    };
    // Programs post until a queue is full, poll and go on.
    let level = if call_error.is_usual() {
        Level::Debug
    } else {
        Level::Error
    };
    let words = gpu::sentence(&call_error);
    log::say(
        level,
        function,
        format_args!("{words} (errno {})", call_error.errno()),
    );
    Err(call_error.errno())
}
