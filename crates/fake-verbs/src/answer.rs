//! How every function answers: first what the machine file asks for, then the result of its body, in one of the three ways
//! that verbs have of telling a failure. No panic leaves a function.

use std::ffi::c_int;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

use crate::machine::MACHINE;

pub type Errno = c_int;

/// Writes a line to the file that the machine names for keys, if it does.
pub fn note(line: &serde_json::Value) {
    if let Some(file) = MACHINE["keys"].as_str() {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(file);
        // A test that reads it sees what is missing.
        let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }
}

/// A function that returns an error number.
pub fn status(function: &str, body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match run(function, body) {
        Ok(()) => 0,
        Err(code) => failed(code, code),
    }
}

/// A function that returns 0, or -1 with `errno`.
pub fn minus_one(function: &str, body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    count(function, || body().map(|()| 0))
}

/// A function that returns a number, or -1 with `errno`.
pub fn count(function: &str, body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    run(function, body).unwrap_or_else(|code| failed(code, -1))
}

/// A function that returns a pointer, or NULL with `errno`.
pub fn made<T>(function: &str, body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    run(function, body).unwrap_or_else(|code| failed(code, null_mut()))
}

/// A function that has no way of telling a failure.
pub fn told<T>(function: &str, otherwise: T, body: impl FnOnce() -> Result<T, Errno>) -> T {
    run(function, body).unwrap_or(otherwise)
}

/// What a function does, or how the machine file has it fail.
pub fn run<T>(function: &str, body: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let whole = || {
        if let Some(log) = MACHINE["log"]
            .as_str()
            .filter(|_| function != "ibv_poll_cq")
        {
            let file = std::fs::File::options().create(true).append(true).open(log);
            // A test that finds no line fails by itself.
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
    // SAFETY: the address is that of this thread's own errno, which lives as long as the thread.
    unsafe { *libc::__errno_location() = code };
    result
}

/// Writes a value.
///
/// # Safety
///
/// `out` is null or valid for a write of `T`: what a caller of verbs promises.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Errno> {
    if out.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: not null, and the caller promises that it is valid for a write.
    unsafe { out.write(value) };
    Ok(())
}
