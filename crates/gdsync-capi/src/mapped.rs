//! Memory of `gds_alloc_mapped_memory`, accessible to the CPU and the GPU.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gdr_sys::process::PerProcess;
use gdrcopy::{Gdr, MapRequest, Mapping, PinFlags};
use gpu::{DevicePtr, bytes, foreign, pages, pointer};

use crate::abi;
use crate::call_error::CallError;
use crate::registry;

struct Table {
    /// Opened for the first GPU memory; it does not use CUDA.
    gdr: Option<Gdr>,
    /// By GPU address.
    gpu: BTreeMap<u64, GpuMemory>,
    /// Lengths in bytes, by host address.
    host: BTreeMap<usize, usize>,
    /// The `gdr_mh_t` of the next GPU memory: never 0.
    next: u64,
}

struct GpuMemory {
    bytes: usize,
    /// CPU address.
    start: usize,
    mapping: Mapping,
}

/// Per process: CUDA does not survive a fork.
static TABLE: PerProcess<Mutex<Table>> = PerProcess::new(|| {
    Mutex::new(Table { gdr: None, gpu: BTreeMap::new(), host: BTreeMap::new(), next: 1 })
});

/// True with a simulated CUDA.
static IS_SIMULATED: AtomicBool = AtomicBool::new(false);

/// Maps the memory of a simulated CUDA. For tests only.
#[doc(hidden)]
pub fn simulate() {
    IS_SIMULATED.store(true, Ordering::Relaxed);
}

/// Allocates device memory with a CPU mapping, in the current context.
pub(crate) fn allocate_gpu(bytes: usize, flags: i32) -> Result<abi::MemDesc, CallError> {
    let device = foreign::allocate(bytes).map_err(CallError::cuda("allocate GPU memory"))?;
    let memory = map_gpu(device, bytes).inspect_err(|_| {
        // SAFETY: allocated above and not used elsewhere. Its error is ignored: the first one is reported.
        let _ = unsafe { foreign::free(device) };
    })?;
    let start = memory.start;
    let mut table = table();
    let mh = table.next;
    table.next += 1;
    table.gpu.insert(device.get(), memory);
    let host = std::ptr::with_exposed_provenance_mut(start);
    Ok(abi::MemDesc {
        d_ptr: device.get(),
        h_ptr: host,
        bar_ptr: host,
        flags,
        alloc_size: bytes,
        mh,
    })
}

fn map_gpu(device: DevicePtr, bytes: usize) -> Result<GpuMemory, CallError> {
    pointer::set_sync_memops(device)
        .map_err(CallError::cuda("make copies of GPU memory synchronous"))?;
    let failed = |source| CallError::Map { source };
    let gdr = gdr()?;
    // SAFETY: this library owns the memory and frees it after its mapping.
    let pin = unsafe { gdr.pin_raw(device, bytes, PinFlags::default()) }.map_err(failed)?;
    let mapping = pin.map(MapRequest::Default).map_err(failed)?;
    Ok(GpuMemory { bytes, start: mapping.as_ptr().expose_provenance().get(), mapping })
}

/// What maps GPU memory for the CPU.
pub(crate) fn gdr() -> Result<Gdr, CallError> {
    let gdr = &mut table().gdr;
    if let Some(gdr) = gdr {
        return Ok(gdr.clone());
    }
    let opened = if IS_SIMULATED.load(Ordering::Relaxed) {
        Ok(Gdr::of_simulated_cuda())
    } else {
        Gdr::open()
    };
    let opened = opened.map_err(|source| CallError::Map { source })?;
    Ok(gdr.insert(opened).clone())
}

/// Allocates host memory in separate pages, zeroed and registered.
pub(crate) fn allocate_host(bytes: usize, flags: i32) -> Result<abi::MemDesc, CallError> {
    let length = bytes.checked_next_multiple_of(registry::page());
    let length = length.ok_or(CallError::HostMemory { bytes })?;
    let failed = || CallError::HostMemory { bytes };
    let register = |start: NonNull<u8>| {
        // SAFETY: the memory is mapped, and is unmapped only after its registration has ended.
        unsafe { registry::register_new(start.as_ptr().expose_provenance(), length) }
    };
    let mapped = pages::register_new(length, |_| failed(), register)?;
    let (start, device) = mapped.ok_or_else(failed)?;
    let start: *mut c_void = start.as_ptr().cast();
    table().host.insert(start.addr(), length);
    Ok(abi::MemDesc {
        d_ptr: device.get(),
        h_ptr: start,
        bar_ptr: std::ptr::null_mut(),
        flags,
        alloc_size: bytes,
        mh: 0,
    })
}

/// Removes the CPU mapping, then frees the memory. Requires a context.
///
/// # Safety
///
/// Neither the CPU nor the GPU uses the memory any more.
pub(crate) unsafe fn free_gpu(device: u64, host: *mut c_void) -> Result<(), CallError> {
    let is_usable = foreign::current_device();
    let mut table = table();
    if table.gpu.get(&device).is_none_or(|memory| memory.start != host.addr()) {
        return Err(CallError::NotOurs);
    }
    is_usable.map_err(CallError::cuda("free GPU memory"))?;
    let memory = table.gpu.remove(&device);
    drop(table);
    drop(memory.map(|memory| memory.mapping));
    // SAFETY: this library allocated it, and the caller promises that it is unused.
    unsafe { foreign::free(DevicePtr::new(device)) }.map_err(CallError::cuda("free GPU memory"))
}

/// Ends the registration, then unmaps the memory. If the first fails, the memory stays.
///
/// # Safety
///
/// As [`free_gpu`].
pub(crate) unsafe fn free_host(host: *mut c_void) -> Result<(), CallError> {
    let start = host.addr();
    let mut table = table();
    let length = *table.host.get(&start).ok_or(CallError::NotOurs)?;
    // SAFETY: the caller's promise.
    unsafe { registry::forget(start..start + length) }?;
    table.host.remove(&start);
    if let Some(start) = NonNull::new(host.cast()) {
        // SAFETY: mapped with this length, and removed from the table, so it is unmapped once.
        unsafe { pages::unmap(start, length) };
    }
    Ok(())
}

/// The CPU address of `bytes` bytes of GPU memory, if this library allocated them.
pub(crate) fn host_address(device: usize, bytes: usize) -> Option<usize> {
    let table = table();
    let (start, memory) = table.gpu.range(..=device as u64).next_back()?;
    let offset = device - *start as usize;
    let is_within = offset < memory.bytes && bytes <= memory.bytes - offset;
    is_within.then_some(memory.start + offset)
}

/// The word at a GPU address, if this library allocated that memory. It is not freed during the load.
pub(crate) fn load(device: DevicePtr) -> Option<u32> {
    let table = table();
    let (start, memory) = table.gpu.range(..=device.get()).next_back()?;
    let offset = (device.get() - start) as usize;
    let is_within = memory.bytes.saturating_sub(offset) >= 4;
    // SAFETY: within the mapping, which the table keeps while it is locked; the caller's words are aligned.
    is_within
        .then(|| unsafe { bytes::load32(std::ptr::with_exposed_provenance(memory.start + offset)) })
}

/// Ignores poisoning: every change is one step.
fn table() -> MutexGuard<'static, Table> {
    TABLE.get().lock().unwrap_or_else(PoisonError::into_inner)
}
