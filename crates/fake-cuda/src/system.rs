//! Starting, and what the library says of itself.

use std::ffi::c_int;

use crate::answer::{Device, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, Return, answer, index, put};
use crate::machine::{MACHINE, integer};

/// cuda.h's function. An empty `CUDA_VISIBLE_DEVICES` hides every GPU, as it does from the real one.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: u32) -> Return {
    let hidden = std::env::var_os("CUDA_VISIBLE_DEVICES").is_some_and(|visible| visible.is_empty());
    answer("cuInit", || match (flags, hidden) {
        (0, false) => Ok(()),
        (0, true) => Err(NO_DEVICE),
        _ => Err(INVALID_VALUE),
    })
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(out: *mut c_int) -> Return {
    // SAFETY: this function's own condition.
    answer("cuDriverGetVersion", || unsafe {
        put(out, integer(&MACHINE["driver_version"]).unwrap_or(13_000))
    })
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(out: *mut c_int) -> Return {
    let count = c_int::try_from(MACHINE.count()).unwrap_or(c_int::MAX);
    // SAFETY: this function's own condition.
    answer("cuDeviceGetCount", || unsafe { put(out, count) })
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(out: *mut Device, ordinal: c_int) -> Return {
    answer("cuDeviceGet", || {
        index(ordinal).map_err(|_| INVALID_DEVICE)?;
        // SAFETY: this function's own condition.
        unsafe { put(out, ordinal) }
    })
}
