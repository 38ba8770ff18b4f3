//! Memory of `gds_alloc_mapped_memory`, accessible to the CPU and the GPU.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gdrcopy::{Gdr, MapRequest, Mapping, PinFlags};
use gpu::{DevicePtr, bytes, foreign, pointer};
use process::PerProcess;

use crate::abi;
use crate::call_error::CallError;
use crate::registry;

/// How many addresses with registrations of unmapped memory [`allocate_host`] skips.
const STALE_REGISTRATIONS: usize = 64;

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
    Mutex::new(Table {
        gdr: None,
        gpu: BTreeMap::new(),
        host: BTreeMap::new(),
        next: 1,
    })
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
    Ok(GpuMemory {
        bytes,
        start: mapping.as_ptr().expose_provenance().get(),
        mapping,
    })
}

/// What maps GPU memory for the CPU.
pub(crate) fn gdr() -> Result<Gdr, CallError> {
    let gdr = &mut table().gdr;
    if let Some(gdr) = gdr {
        return Ok(gdr.clone());
    }
    let opened = match IS_SIMULATED.load(Ordering::Relaxed) {
        true => Ok(Gdr::of_simulated_cuda()),
        false => Gdr::open(),
    };
    let opened = opened.map_err(|source| CallError::Map { source })?;
    Ok(gdr.insert(opened).clone())
}

/// Allocates host memory in separate pages, zeroed and registered.
pub(crate) fn allocate_host(bytes: usize, flags: i32) -> Result<abi::MemDesc, CallError> {
    let length = bytes.checked_next_multiple_of(registry::page());
    let length = length.ok_or(CallError::HostMemory { bytes })?;
    let mut stale = Vec::new();
    let mapped = loop {
        let Some(start) = map(length) else {
            break Err(CallError::HostMemory { bytes });
        };
        // SAFETY: the memory is mapped, and is unmapped only after its registration has ended.
        match unsafe { registry::register_new(start.expose_provenance(), length) } {
            Ok(Some(device)) => break Ok((start, device)),
            Ok(None) if stale.len() < STALE_REGISTRATIONS => stale.push(start),
            failed => {
                stale.push(start);
                break Err(failed.err().unwrap_or(CallError::HostMemory { bytes }));
            }
        }
    };
    // Only now: the kernel would return the same address again.
    for start in stale {
        // SAFETY: mapped above and not used.
        unsafe { unmap(start, length) };
    }
    let (start, device) = mapped?;
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
    if table
        .gpu
        .get(&device)
        .is_none_or(|memory| memory.start != host.addr())
    {
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
    // SAFETY: mapped with this length, and removed from the table, so it is unmapped once.
    unsafe { unmap(host, length) };
    Ok(())
}

/// Pages from the system, not from the heap, so that a registration covers no other data.
fn map(length: usize) -> Option<*mut c_void> {
    let (rights, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, flags, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start)
}

/// # Safety
///
/// Mapped by [`map`] with this length, and unused.
unsafe fn unmap(start: *mut c_void, length: usize) {
    // SAFETY: the caller's promise. On failure the pages stay.
    let _ = unsafe { libc::munmap(start, length) };
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
