//! Properties of one GPU or of a pair.

use std::ffi::{c_char, c_int};

use crate::answer::{Device, INVALID_VALUE, Return, answer_of, index, put, put_text};
use crate::machine::{self, MACHINE, integer};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(
    out: *mut c_char,
    length: c_int,
    device: Device,
) -> Return {
    answer_of("cuDeviceGetName", device, |gpu| {
        let name = MACHINE.gpu(gpu, "name").and_then(|name| name.as_str());
        // SAFETY: cuda.h's contract.
        unsafe { put_text(out, length, name.unwrap_or("Fake GPU")) }
    })
}

/// Fails for a GPU without an address, which is not a PCI device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetPCIBusId(
    out: *mut c_char,
    length: c_int,
    device: Device,
) -> Return {
    answer_of("cuDeviceGetPCIBusId", device, |gpu| {
        let bdf = MACHINE.gpu(gpu, "bdf").and_then(|bdf| bdf.as_str());
        // SAFETY: cuda.h's contract.
        unsafe { put_text(out, length, bdf.ok_or(INVALID_VALUE)?) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(out: *mut [u8; 16], device: Device) -> Return {
    answer_of("cuDeviceGetUuid", device, |gpu| {
        // SAFETY: cuda.h's contract.
        unsafe { put(out, uuid(gpu)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(out: *mut usize, device: Device) -> Return {
    answer_of("cuDeviceTotalMem_v2", device, |gpu| {
        // SAFETY: cuda.h's contract.
        unsafe { put(out, memory(gpu)) }
    })
}

/// cuda.h's function; an attribute newer than the driver is an invalid value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    out: *mut c_int,
    attribute: u32,
    device: Device,
) -> Return {
    answer_of("cuDeviceGetAttribute", device, |gpu| {
        let value = machine::attribute(gpu, attribute).ok_or(INVALID_VALUE)?;
        // SAFETY: cuda.h's contract.
        unsafe { put(out, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceCanAccessPeer(
    out: *mut c_int,
    from: Device,
    to: Device,
) -> Return {
    answer_of("cuDeviceCanAccessPeer", from, |gpu| {
        let can = can_access(gpu, index(to)?);
        // SAFETY: cuda.h's contract.
        unsafe { put(out, c_int::from(can)) }
    })
}

/// Memory size of a GPU in bytes.
pub fn memory(gpu: usize) -> usize {
    let memory = MACHINE.gpu(gpu, "memory").and_then(|memory| memory.as_u64());
    usize::try_from(memory.unwrap_or(1 << 34)).unwrap_or(usize::MAX)
}

/// True if one GPU can access another's memory; false for itself, as in CUDA.
pub fn can_access(from: usize, to: usize) -> bool {
    from != to && machine::pair(from, to, "can_access").and_then(integer) == Some(1)
}

/// "gpu" and, as last byte, the index in the machine file.
pub fn uuid(gpu: usize) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..3].copy_from_slice(b"gpu");
    uuid[15] = u8::try_from(gpu).unwrap_or(u8::MAX);
    uuid
}

/// UUID in the format of NVIDIA's tools.
pub fn uuid_text(gpu: usize) -> String {
    let digits: String = uuid(gpu).iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
    let parts = [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)];
    format!("GPU-{}", parts.join("-"))
}
