//! Queries of one GPU or a pair.

use std::ffi::{c_char, c_uint};

use crate::answer::{answer, array, gpu, index, number, numbers, put, put_text};
use crate::layout::{Device, INVALID_ARGUMENT, Memory, NOT_SUPPORTED, PciInfo, Return};
use crate::machine;

numbers! {
    nvmlDeviceGetMinorNumber = "minor";
    nvmlDeviceGetPersistenceMode = "persistence";
    nvmlDeviceGetPerformanceState = "performance_state";
}

/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetName(
    device: Device,
    out: *mut c_char,
    length: c_uint,
) -> Return {
    // SAFETY: the caller's guarantee.
    answer("nvmlDeviceGetName", || unsafe { put_text(out, length, gpu(device, "name")?) })
}

/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetUUID(
    device: Device,
    out: *mut c_char,
    length: c_uint,
) -> Return {
    // SAFETY: the caller's guarantee.
    answer("nvmlDeviceGetUUID", || unsafe { put_text(out, length, gpu(device, "uuid")?) })
}

/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, out: *mut PciInfo) -> Return {
    answer("nvmlDeviceGetPciInfo_v3", || {
        let bdf = gpu(device, "bdf")?.as_str().ok_or(NOT_SUPPORTED)?;
        // SAFETY: the caller's guarantee.
        unsafe { put(out, address(bdf)) }
    })
}

/// Splits an address with NVML's eight-digit domain; invalid digits become zero.
pub fn address(bdf: &str) -> PciInfo {
    let part = |n: usize| {
        let digits = bdf.split([':', '.']).nth(n).unwrap_or_default();
        c_uint::from_str_radix(digits, 16).unwrap_or_default()
    };
    PciInfo {
        bus_id_legacy: array(bdf.get(4..).unwrap_or_default()),
        domain: part(0),
        bus: part(1),
        device: part(2),
        pci_device_id: 0,
        pci_subsystem_id: 0,
        bus_id: array(bdf),
    }
}

/// `bar1` is total, free, used.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetBAR1MemoryInfo(device: Device, out: *mut Memory) -> Return {
    answer("nvmlDeviceGetBAR1MemoryInfo", || {
        let bar1 = gpu(device, "bar1")?;
        let size = |n: usize| bar1[n].as_u64().ok_or(NOT_SUPPORTED);
        // SAFETY: the caller's guarantee.
        unsafe { put(out, Memory { total: size(0)?, free: size(1)?, used: size(2)? }) }
    })
}

/// All memory is free.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(device: Device, out: *mut Memory) -> Return {
    answer("nvmlDeviceGetMemoryInfo", || {
        let total = gpu(device, "memory_total")?.as_u64().ok_or(NOT_SUPPORTED)?;
        // SAFETY: the caller's guarantee.
        unsafe { put(out, Memory { total, free: total, used: 0 }) }
    })
}

/// A capability past the end of `p2p` is an invalid argument, as on an older driver.
///
/// # Safety
///
/// `out` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    a: Device,
    b: Device,
    kind: c_uint,
    out: *mut c_uint,
) -> Return {
    answer("nvmlDeviceGetP2PStatus", || {
        let statuses = machine::pair(index(a)?, index(b)?, "p2p").ok_or(NOT_SUPPORTED)?;
        let status = statuses.get(kind as usize).ok_or(INVALID_ARGUMENT)?;
        // SAFETY: the caller's guarantee.
        unsafe { put(out, number(status)?) }
    })
}
