//! Initialisation and system queries.

use std::ffi::{c_char, c_int, c_uint};

use crate::answer::{answer, put, put_text};
use crate::layout::{Device, INVALID_ARGUMENT, NOT_SUPPORTED, Return};
use crate::machine::MACHINE;

/// Returns `init_error`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Return {
    answer("nvmlInit_v2", || fakes::machine::number(&MACHINE["init_error"]).map_or(Ok(()), Err))
}

/// The flags are ignored.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Return {
    answer("nvmlInitWithFlags", || {
        fakes::machine::number(&MACHINE["init_error"]).map_or(Ok(()), Err)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Return {
    answer("nvmlShutdown", || Ok(()))
}

/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) -> Return {
    // SAFETY: the caller's guarantee.
    answer("nvmlSystemGetDriverVersion", || unsafe {
        put_text(out, length, &MACHINE["driver_version"])
    })
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(out: *mut c_int) -> Return {
    // SAFETY: the caller's guarantee.
    answer("nvmlSystemGetCudaDriverVersion", || unsafe { put(out, cuda()?) })
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) -> Return {
    // SAFETY: the caller's guarantee.
    answer("nvmlSystemGetCudaDriverVersion_v2", || unsafe { put(out, cuda()?) })
}

fn cuda() -> Result<c_int, Return> {
    MACHINE["cuda_driver_version"]
        .as_i64()
        .and_then(|version| c_int::try_from(version).ok())
        .ok_or(NOT_SUPPORTED)
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut c_uint) -> Return {
    let count = c_uint::try_from(MACHINE.count()).unwrap_or(c_uint::MAX);
    // SAFETY: the caller's guarantee.
    answer("nvmlDeviceGetCount_v2", || unsafe { put(out, count) })
}

/// Returns the GPU's `error`, if it has one.
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
        MACHINE.gpu(index, "error").and_then(fakes::machine::number).map_or(Ok(()), Err)?;
        // SAFETY: the caller's guarantee.
        unsafe { put(out, index + 1) }
    })
}
