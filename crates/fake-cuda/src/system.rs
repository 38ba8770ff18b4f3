//! Initialisation and version.

use std::ffi::c_int;

use crate::answer::{Device, INVALID_VALUE, NO_DEVICE, Return, answer, answer_of, put};
use crate::machine::{MACHINE, integer};
use crate::visible::{VISIBLE, hides_all};

/// Fails if `CUDA_VISIBLE_DEVICES` hides every GPU, like the real one.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: u32) -> Return {
    answer("cuInit", || match (flags, hides_all()) {
        (0, false) => Ok(()),
        (0, true) => Err(NO_DEVICE),
        _ => Err(INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(out: *mut c_int) -> Return {
    // SAFETY: cuda.h's contract.
    answer("cuDriverGetVersion", || unsafe {
        put(out, integer(&MACHINE["driver_version"]).unwrap_or(13_000))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(out: *mut c_int) -> Return {
    let count = c_int::try_from(VISIBLE.len()).unwrap_or(c_int::MAX);
    // SAFETY: cuda.h's contract.
    answer("cuDeviceGetCount", || unsafe { put(out, count) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(out: *mut Device, ordinal: c_int) -> Return {
    answer_of("cuDeviceGet", ordinal, |_| {
        // SAFETY: cuda.h's contract.
        unsafe { put(out, ordinal) }
    })
}
