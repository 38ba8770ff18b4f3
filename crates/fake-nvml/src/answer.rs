//! The frame of every exported function: faults of the machine file first, then the value, written to the output.

use std::ffi::{c_char, c_uint};

use serde_json::Value;

use crate::layout::{Device, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_SUPPORTED, Return, SUCCESS};
use crate::machine::MACHINE;

/// Hangs or fails if the machine file says so for this function, else runs `body`.
pub fn answer(function: &str, body: impl FnOnce() -> Result<(), Return>) -> Return {
    if let Some(code) = MACHINE.fault(function) {
        return code;
    }
    body().map_or_else(|code| code, |()| SUCCESS)
}

/// The index of a handle.
pub fn index(device: Device) -> Result<usize, Return> {
    match device {
        1.. if device <= MACHINE.count() => Ok(device - 1),
        _ => Err(INVALID_ARGUMENT),
    }
}

/// A GPU's value; absent values are not supported.
pub fn gpu(device: Device, key: &str) -> Result<&'static Value, Return> {
    MACHINE.gpu(index(device)?, key).ok_or(NOT_SUPPORTED)
}

/// A number; `true` and `false` are 1 and 0.
pub fn number(value: &Value) -> Result<u32, Return> {
    value.as_bool().map(u32::from).or_else(|| fakes::machine::number(value)).ok_or(NOT_SUPPORTED)
}

/// Writes a value.
///
/// # Safety
///
/// `out` is null or valid for a write of `T`.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Return> {
    if out.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and valid for a write by the caller's guarantee.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a string with its NUL.
///
/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
pub unsafe fn put_text(out: *mut c_char, length: c_uint, value: &Value) -> Result<(), Return> {
    let text = value.as_str().ok_or(NOT_SUPPORTED)?;
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    for (position, byte) in text.bytes().chain([0]).enumerate() {
        // SAFETY: `position` is at most `text.len()`, which is below `length`.
        unsafe { put(out.wrapping_add(position), c_char::from_ne_bytes([byte]))? };
    }
    Ok(())
}

/// A string in a fixed array, truncated to fit.
pub fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, byte) in out.iter_mut().zip(text.bytes()).take(N - 1) {
        *to = c_char::from_ne_bytes([byte]);
    }
    out
}

/// Defines functions of a GPU that write one number; key `"a/b"` is `b` inside `a`.
macro_rules! numbers {
    ($( $(#[$attribute:meta])* $function:ident = $key:literal; )*) => { $(
        $(#[$attribute])*
        #[doc = concat!("nvml.h's function, answered by `", $key, "`.\n\n# Safety\n\n`out` is null or valid for a write.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $function(device: $crate::layout::Device, out: *mut std::ffi::c_uint) -> $crate::layout::Return {
            $crate::answer::answer(stringify!($function), || {
                let (outer, inner) = $key.split_once('/').unwrap_or(($key, ""));
                let value = $crate::answer::gpu(device, outer)?;
                let value = if inner.is_empty() { value } else { &value[inner] };
                // SAFETY: the caller's guarantee.
                unsafe { $crate::answer::put(out, $crate::answer::number(value)?) }
            })
        }
    )* };
}
pub(crate) use numbers;
