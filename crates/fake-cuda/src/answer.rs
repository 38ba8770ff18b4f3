//! How every function answers: first what the machine file asks for, then the value, written where the caller said.

use std::ffi::{c_char, c_int};
use std::io::Write;

use crate::machine::MACHINE;

/// `CUresult`.
pub type Return = u32;
/// `CUdevice`: here the index itself.
pub type Device = c_int;

pub const SUCCESS: Return = 0;
pub const INVALID_VALUE: Return = 1;
pub const NO_DEVICE: Return = 100;
pub const INVALID_DEVICE: Return = 101;
pub const INVALID_CONTEXT: Return = 201;

/// Notes the call, hangs or fails if the machine file says so of this function, else runs `body`.
pub fn answer(function: &str, body: impl FnOnce() -> Result<(), Return>) -> Return {
    if let Some(log) = MACHINE["log"].as_str() {
        let file = std::fs::File::options().create(true).append(true).open(log);
        // A test that finds no line fails by itself.
        let _ = file.and_then(|mut file| file.write_all(format!("{function}\n").as_bytes()));
    }
    if let Some(code) = MACHINE.fault(function) {
        return code;
    }
    body().map_or_else(|code| code, |()| SUCCESS)
}

/// The index behind a device.
pub fn index(device: Device) -> Result<usize, Return> {
    match usize::try_from(device) {
        Ok(index) if index < MACHINE.count() => Ok(index),
        _ => Err(INVALID_DEVICE),
    }
}

/// Writes a value.
///
/// # Safety
///
/// `out` is null or valid for a write of `T`: what a caller of CUDA promises.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Return> {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the caller promises that it is valid for a write.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a text and its NUL; too long a text loses its end.
///
/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
pub unsafe fn put_text(out: *mut c_char, length: c_int, text: &str) -> Result<(), Return> {
    let room = usize::try_from(length).unwrap_or(0).saturating_sub(1);
    for (position, byte) in text.bytes().take(room).chain([0]).enumerate() {
        // SAFETY: `position` is at most `room`, which is below `length`.
        unsafe { put(out.wrapping_add(position), c_char::from_ne_bytes([byte]))? };
    }
    Ok(())
}
