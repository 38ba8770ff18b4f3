//! The frame of every exported function: faults of the machine file first, then the body, then the result in one of the three
//! error conventions of verbs. No panic crosses the C interface.

use std::ffi::c_int;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use crate::machine::MACHINE;

pub type Errno = c_int;

/// Appends a line to the machine's `keys` file, if it names one.
pub fn note(line: &serde_json::Value) {
    if let Some(file) = MACHINE["keys"].as_str() {
        let file = std::fs::File::options().create(true).append(true).open(file);
        // Ignored: the test that reads the file notices a missing line.
        let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }
}

/// Returns an error number.
pub fn status(function: &str, body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match run(function, body) {
        Ok(()) => 0,
        Err(code) => failed(code, code),
    }
}

/// Returns 0, or -1 with `errno`.
pub fn minus_one(function: &str, body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    count(function, || body().map(|()| 0))
}

/// Returns a number, or -1 with `errno`.
pub fn count(function: &str, body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    run(function, body).unwrap_or_else(|code| failed(code, -1))
}

/// Returns a pointer, or NULL with `errno`.
pub fn pointer_or_null<T>(function: &str, body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    run(function, body).unwrap_or_else(|code| failed(code, null_mut()))
}

/// For functions that cannot report a failure.
pub fn infallible<T>(function: &str, otherwise: T, body: impl FnOnce() -> Result<T, Errno>) -> T {
    run(function, body).unwrap_or(otherwise)
}

/// Runs the body, or fails as the machine file says.
pub fn run<T>(function: &str, body: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let whole = || {
        if let Some(log) = MACHINE["log"].as_str().filter(|_| function != "ibv_poll_cq") {
            let file = std::fs::File::options().create(true).append(true).open(log);
            // Ignored: the test that reads the log notices a missing line.
            let _ = file.and_then(|mut file| file.write_all(format!("{function}\n").as_bytes()));
        }
        match MACHINE.fault(function) {
            Some(code) => Err(Errno::try_from(code).unwrap_or(libc::EIO)),
            None => body(),
        }
    };
    catch_unwind(AssertUnwindSafe(whole)).unwrap_or(Err(libc::EIO))
}

fn failed<T>(code: Errno, result: T) -> T {
    // SAFETY: the address of this thread's errno, which lives as long as the thread.
    unsafe { *libc::__errno_location() = code };
    result
}

/// Writes a value; EINVAL for a null pointer.
///
/// # Safety
///
/// `out` is null or valid for a write of `T`.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Errno> {
    if out.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: not null, and valid for a write by the caller's guarantee.
    unsafe { out.write(value) };
    Ok(())
}
