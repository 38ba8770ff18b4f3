//! Names and descriptions of error codes.

use std::ffi::{CStr, c_char};

use crate::answer::{INVALID_VALUE, Return, answer, put};

/// cuda.h's codes that tests inject or this library returns, with the driver's descriptions.
const CODES: [(Return, &CStr, &CStr); 32] = [
    (0, c"CUDA_SUCCESS", c"no error"),
    (1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error"),
    (46, c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"CUDA-capable device(s) is/are busy or unavailable"),
    (100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected"),
    (101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
    (201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (
        209,
        c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"no kernel image is available for execution on the device",
    ),
    (214, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"uncorrectable ECC error encountered"),
    (
        217,
        c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        c"peer access is not supported between these two devices",
    ),
    (218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed"),
    (
        220,
        c"CUDA_ERROR_NVLINK_UNCORRECTABLE",
        c"uncorrectable NVLink error detected during the execution",
    ),
    (
        222,
        c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"the provided PTX was compiled with an unsupported toolchain.",
    ),
    (304, c"CUDA_ERROR_OPERATING_SYSTEM", c"OS call failed or operation not supported on this OS"),
    (400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (600, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
    (704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled"),
    (705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", c"peer access has not been enabled"),
    (711, c"CUDA_ERROR_TOO_MANY_PEERS", c"peer mapping resources exhausted"),
    (
        712,
        c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        c"part or all of the requested memory range is already mapped",
    ),
    (
        713,
        c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        c"pointer does not correspond to a registered memory region",
    ),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS", c"misaligned address"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure"),
    (800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted"),
    (801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (802, c"CUDA_ERROR_SYSTEM_NOT_READY", c"system not yet initialized"),
    (999, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// Writes one of a code's texts, or null with an error.
///
/// # Safety
///
/// `out` is null or valid for a write.
unsafe fn put_text(
    code: Return,
    out: *mut *const c_char,
    text: impl Fn(&(Return, &'static CStr, &'static CStr)) -> &'static CStr,
) -> Result<(), Return> {
    let found = CODES.iter().find(|entry| entry.0 == code);
    // SAFETY: cuda.h's contract.
    unsafe { put(out, found.map_or(std::ptr::null(), |entry| text(entry).as_ptr()))? };
    found.map(drop).ok_or(INVALID_VALUE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: Return, out: *mut *const c_char) -> Return {
    // SAFETY: cuda.h's contract.
    answer("cuGetErrorName", || unsafe { put_text(code, out, |entry| entry.1) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: Return, out: *mut *const c_char) -> Return {
    // SAFETY: cuda.h's contract.
    answer("cuGetErrorString", || unsafe { put_text(code, out, |entry| entry.2) })
}
