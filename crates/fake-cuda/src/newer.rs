//! What a driver as old as the feature `old` pretends does not have at all.

use std::ffi::{c_int, c_void};
use std::os::fd::IntoRawFd as _;

use crate::answer::{Device, INVALID_VALUE, Return, answer, index, put};
use crate::machine::{self, integer};

/// cuda.h's function (CUDA 11.4).
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(out: *mut [u8; 16], device: Device) -> Return {
    answer("cuDeviceGetUuid_v2", || {
        // SAFETY: this function's own condition.
        match unsafe { crate::device::cuDeviceGetUuid(out, device) } {
            0 => Ok(()),
            code => Err(code),
        }
    })
}

/// cuda.h's function (CUDA 8.0); what a pair's `p2p` does not say is 0.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetP2PAttribute(out: *mut c_int, attribute: u32, from: Device, to: Device) -> Return {
    answer("cuDeviceGetP2PAttribute", || {
        let values = machine::pair(index(from)?, index(to)?, "p2p");
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
    answer("cuMemGetHandleForAddressRange", || {
        if kind != 1 || flags > 1 || !crate::context::is_allocated(address, bytes) {
            return Err(INVALID_VALUE);
        }
        let nothing = std::fs::File::open("/dev/null").map_err(|_| INVALID_VALUE)?;
        // SAFETY: this function's own condition.
        unsafe { put(out.cast::<c_int>(), nothing.into_raw_fd()) }
    })
}
