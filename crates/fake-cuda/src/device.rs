//! What CUDA says of one GPU, or of two.

use std::ffi::{c_char, c_int};

use crate::answer::{Device, INVALID_VALUE, Return, answer, index, put, put_text};
use crate::machine::{self, MACHINE, integer};

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(out: *mut c_char, length: c_int, device: Device) -> Return {
    answer("cuDeviceGetName", || {
        let name = MACHINE.gpu(index(device)?, "name").and_then(|name| name.as_str());
        // SAFETY: this function's own condition.
        unsafe { put_text(out, length, name.unwrap_or("Fake GPU")) }
    })
}

/// cuda.h's function. A GPU without an address is no PCI device: CUDA refuses then.
///
/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(out: *mut c_char, length: c_int, device: Device) -> Return {
    answer("cuDeviceGetPCIBusId", || {
        let bdf = MACHINE.gpu(index(device)?, "bdf").and_then(|bdf| bdf.as_str());
        // SAFETY: this function's own condition.
        unsafe { put_text(out, length, bdf.ok_or(INVALID_VALUE)?) }
    })
}

/// cuda.h's function: the index and the digits of "gpu".
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(out: *mut [u8; 16], device: Device) -> Return {
    answer("cuDeviceGetUuid", || {
        let last = u8::try_from(index(device)?).unwrap_or(u8::MAX);
        // SAFETY: this function's own condition.
        unsafe { put(out, [b'g', b'p', b'u', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]) }
    })
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(out: *mut usize, device: Device) -> Return {
    answer("cuDeviceTotalMem_v2", || {
        let memory = MACHINE.gpu(index(device)?, "memory").and_then(|memory| memory.as_u64());
        let memory = usize::try_from(memory.unwrap_or(1 << 34)).unwrap_or(usize::MAX);
        // SAFETY: this function's own condition.
        unsafe { put(out, memory) }
    })
}

/// cuda.h's function; an attribute newer than the driver is an invalid value.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(out: *mut c_int, attribute: u32, device: Device) -> Return {
    answer("cuDeviceGetAttribute", || {
        let value = machine::attribute(index(device)?, attribute).ok_or(INVALID_VALUE)?;
        // SAFETY: this function's own condition.
        unsafe { put(out, value) }
    })
}

/// cuda.h's function.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(out: *mut c_int, from: Device, to: Device) -> Return {
    answer("cuDeviceCanAccessPeer", || {
        let can = machine::pair(index(from)?, index(to)?, "can_access").and_then(integer);
        // SAFETY: this function's own condition.
        unsafe { put(out, can.unwrap_or(0)) }
    })
}
