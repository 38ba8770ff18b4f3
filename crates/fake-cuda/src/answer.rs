//! Common part of every function: misbehaviour from the machine file, then the result.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::context;
use crate::machine::MACHINE;
use crate::visible::VISIBLE;

/// `CUresult`.
pub type Return = u32;
/// `CUdevice`: here the ordinal itself.
pub type Device = c_int;

pub const SUCCESS: Return = 0;
pub const INVALID_VALUE: Return = 1;
pub const OUT_OF_MEMORY: Return = 2;
pub const NO_DEVICE: Return = 100;
pub const INVALID_DEVICE: Return = 101;
pub const INVALID_IMAGE: Return = 200;
pub const INVALID_CONTEXT: Return = 201;
pub const PEER_ACCESS_UNSUPPORTED: Return = 217;
pub const OPERATING_SYSTEM: Return = 304;
pub const INVALID_HANDLE: Return = 400;
pub const NOT_FOUND: Return = 500;
pub const NOT_READY: Return = 600;
pub const ILLEGAL_ADDRESS: Return = 700;
pub const PEER_ACCESS_ALREADY_ENABLED: Return = 704;
pub const PEER_ACCESS_NOT_ENABLED: Return = 705;
pub const HOST_MEMORY_ALREADY_REGISTERED: Return = 712;
pub const HOST_MEMORY_NOT_REGISTERED: Return = 713;
pub const MISALIGNED_ADDRESS: Return = 716;
pub const NOT_SUPPORTED: Return = 801;

/// Sticky error codes: of each GPU's contexts, and under `None` of all GPUs.
static BROKEN: Mutex<BTreeMap<Option<usize>, Return>> = Mutex::new(BTreeMap::new());

/// Locks a table of the process. Poisoning is ignored: each entry changes in one call.
pub fn held<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Breaks the context of a GPU, or of all, until the process ends. The first failure is kept.
pub fn break_contexts(gpu: Option<usize>, code: Return) {
    held(&BROKEN).entry(gpu).or_insert(code);
}

/// True if a GPU's context still works.
pub fn whole(gpu: usize) -> Result<(), Return> {
    let broken = held(&BROKEN);
    let code = broken.get(&Some(gpu)).or_else(|| broken.get(&None));
    code.map_or(Ok(()), |code| Err(*code))
}

/// A function that concerns no GPU: logs the call, hangs or fails as the machine file says,
/// else runs `body`.
pub fn answer(function: &str, body: impl FnOnce() -> Result<(), Return>) -> Return {
    answer_about(function, None, body)
}

/// A function that concerns this device; `body` gets the GPU.
pub fn answer_of(
    function: &str,
    device: Device,
    body: impl FnOnce(usize) -> Result<(), Return>,
) -> Return {
    let gpu = index(device);
    answer_about(function, gpu.ok(), || body(gpu?))
}

/// A function that needs a current context; `body` gets its GPU.
pub fn answer_here(function: &str, body: impl FnOnce(usize) -> Result<(), Return>) -> Return {
    let gpu = context::current();
    answer_about(function, gpu, || {
        let gpu = gpu.ok_or(INVALID_CONTEXT)?;
        whole(gpu)?;
        body(gpu)
    })
}

fn answer_about(
    function: &str,
    gpu: Option<usize>,
    body: impl FnOnce() -> Result<(), Return>,
) -> Return {
    if let Some(log) = MACHINE["log"].as_str() {
        let file = std::fs::File::options().create(true).append(true).open(log);
        // Ignored: a test that misses the line fails.
        let _ = file.and_then(|mut file| file.write_all(format!("{function}\n").as_bytes()));
    }
    if let Some(fault) = MACHINE.called(function, gpu) {
        if fault.sticky {
            break_contexts(fault.of, fault.code);
        }
        return fault.code;
    }
    body().map_or_else(|code| code, |()| SUCCESS)
}

/// GPU of a device, as index in the machine file.
pub fn index(device: Device) -> Result<usize, Return> {
    let ordinal = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
    VISIBLE.get(ordinal).copied().ok_or(INVALID_DEVICE)
}

/// Writes a value.
///
/// # Safety
///
/// `out` is null or valid for a write of `T`.
pub unsafe fn put<T>(out: *mut T, value: T) -> Result<(), Return> {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and the caller guarantees that it is valid for a write.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a NUL-terminated text, truncated to `length`.
///
/// # Safety
///
/// `out` is null or valid for writes of `length` bytes.
pub unsafe fn put_text(out: *mut c_char, length: c_int, text: &str) -> Result<(), Return> {
    let room = usize::try_from(length).unwrap_or(0).saturating_sub(1);
    for (position, byte) in text.bytes().take(room).chain([0]).enumerate() {
        // SAFETY: `position` is at most `room`, which is below `length`.
        unsafe { put(out.wrapping_add(position), c_char::from_ne_bytes([byte]))? };
    }
    Ok(())
}
