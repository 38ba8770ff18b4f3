//! Opening the library, and what it says of the machine.

use std::ffi::{c_char, c_int, c_uint};

use crate::answer::{answer, put, put_text};
use crate::layout::{Device, INVALID_ARGUMENT, NOT_SUPPORTED, Return};
use crate::machine::MACHINE;

/// nvml.h's function; `init_error` is what it returns.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    answer("nvmlInit_v2", || {
        fake_machine::number(&MACHINE["init_error"]).map_or(Ok(()), Err)
    })
}

/// nvml.h's function; the flags change nothing here.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Return {
    answer("nvmlInitWithFlags", || {
        fake_machine::number(&MACHINE["init_error"]).map_or(Ok(()), Err)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    answer("nvmlShutdown", || Ok(()))
}

/// nvml.h's function.
///
/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> Return {
    // SAFETY: this function's own condition.
    answer("nvmlSystemGetDriverVersion", || unsafe {
        put_text(out, length, &MACHINE["driver_version"])
    })
}

/// nvml.h's function.
///
/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(out: *mut c_char, length: c_uint) -> Return {
    // SAFETY: this function's own condition.
    answer("nvmlSystemGetNVMLVersion", || unsafe {
        put_text(out, length, &MACHINE["nvml_version"])
    })
}

/// nvml.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(out: *mut c_int) -> Return {
    // SAFETY: this function's own condition.
    answer("nvmlSystemGetCudaDriverVersion", || unsafe {
        put(out, cuda()?)
    })
}

/// nvml.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) -> Return {
    // SAFETY: this function's own condition.
    answer("nvmlSystemGetCudaDriverVersion_v2", || unsafe {
        put(out, cuda()?)
    })
}

fn cuda() -> Result<c_int, Return> {
    MACHINE["cuda_driver_version"]
        .as_i64()
        .and_then(|version| c_int::try_from(version).ok())
        .ok_or(NOT_SUPPORTED)
}

/// nvml.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> Return {
    let count = c_uint::try_from(MACHINE.count()).unwrap_or(c_uint::MAX);
    // SAFETY: this function's own condition.
    answer("nvmlDeviceGetCount_v2", || unsafe { put(out, count) })
}

/// nvml.h's function; a GPU's `error` is what it returns.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut Device) -> Return {
    answer("nvmlDeviceGetHandleByIndex_v2", || {
        let index = index as usize;
        if index >= MACHINE.count() {
            return Err(INVALID_ARGUMENT);
        }
        MACHINE
            .gpu(index, "error")
            .and_then(fake_machine::number)
            .map_or(Ok(()), Err)?;
        // SAFETY: this function's own condition.
        unsafe { put(out, index + 1) }
    })
}
