//! Wrappers of all C functions: catch panics, and log and convert errors.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::SUCCESS;
use crate::call_error::CallError;
use crate::log::{self, Level};

/// Runs `body`. Returns `MP_SUCCESS` or the number of its error.
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<(), CallError>) -> c_int {
    number(function, || body().map(|()| SUCCESS))
}

/// Runs `body`. Returns its number or that of its error.
pub(crate) fn number(
    function: &'static str,
    body: impl FnOnce() -> Result<c_int, CallError>,
) -> c_int {
    // Unwind safe: shared data is behind locks and changed only by single inserts and removals.
    let ended = catch_unwind(AssertUnwindSafe(body));
    let error = match ended.unwrap_or(Err(CallError::Panicked)) {
        Ok(number) => return number,
        Err(error) => error,
    };
    let (code, text) = (error.code(), gpu::sentence(&error));
    log::write(Level::Error, function, format_args!("{text} ({code})"));
    code
}
