//! What a driver as old as the feature `old` pretends does not have at all.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd as _;

use crate::answer::{Device, INVALID_VALUE, Return, answer, answer_here, answer_of, index, put};
use crate::machine::{self, integer};

/// cuda.h's function (CUDA 11.4).
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(out: *mut [u8; 16], device: Device) -> Return {
    answer_of("cuDeviceGetUuid_v2", device, |gpu| {
        // SAFETY: this function's own condition.
        unsafe { put(out, crate::device::uuid(gpu)) }
    })
}

/// cuda.h's function (CUDA 8.0); what a pair's `p2p` does not say is 0.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetP2PAttribute(out: *mut c_int, attribute: u32, from: Device, to: Device) -> Return {
    answer_of("cuDeviceGetP2PAttribute", from, |from| {
        let values = machine::pair(from, index(to)?, "p2p");
        if !(1..=5).contains(&attribute) {
            return Err(INVALID_VALUE);
        }
        let value = values
            .and_then(|values| values.get(attribute.to_string()))
            .and_then(integer);
        // SAFETY: this function's own condition.
        unsafe { put(out, value.unwrap_or(0)) }
    })
}

/// cuda.h's function (CUDA 11.7): a descriptor of nothing.
///
/// # Safety
///
/// `out` is null or valid for a write of an `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetHandleForAddressRange(
    out: *mut c_void,
    address: u64,
    bytes: usize,
    kind: u32,
    flags: u64,
) -> Return {
    answer_here("cuMemGetHandleForAddressRange", |_| {
        if kind != 1 || flags > 1 || crate::memory::device_range(address, bytes).is_err() {
            return Err(INVALID_VALUE);
        }
        let nothing = std::fs::File::open("/dev/null").map_err(|_| INVALID_VALUE)?;
        // SAFETY: this function's own condition.
        unsafe { put(out.cast::<c_int>(), nothing.into_raw_fd()) }
    })
}

thread_local! {
    /// `CU_STREAM_CAPTURE_MODE_GLOBAL` at first.
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
}

/// cuda.h's function (CUDA 10.1).
///
/// # Safety
///
/// `mode` is null or valid for a read and a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) -> Return {
    answer("cuThreadExchangeStreamCaptureMode", || {
        if mode.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: not null, and this function's own condition.
        let wanted = unsafe { mode.read() };
        if wanted > 2 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { put(mode, CAPTURE_MODE.replace(wanted)) }
    })
}

/// cuda.h's function (CUDA 12.8); the time is that of the older one.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(out: *mut f32, from: usize, to: usize) -> Return {
    answer_here("cuEventElapsedTime_v2", |_| {
        let elapsed = crate::event::elapsed(from, to)?;
        // SAFETY: this function's own condition.
        unsafe { put(out, elapsed) }
    })
}
