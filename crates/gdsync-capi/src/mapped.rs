//! Memory that both the CPU and the GPU reach, as `gds_alloc_mapped_memory` gives it: who owns what, by where the GPU sees it.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gdrcopy::{Gdr, MapRequest, Mapping, PinFlags};
use gpu::{DevicePtr, Registration, foreign, pointer};
use process::PerProcess;

use crate::abi;
use crate::call_error::CallError;
use crate::registry::{self, Lookup};

struct Table {
    /// Opened for the first GPU memory; it touches no CUDA.
    gdr: Option<Gdr>,
    gpu: BTreeMap<u64, GpuMemory>,
    /// By host address, the bytes.
    host: BTreeMap<usize, usize>,
    /// The `gdr_mh_t` of the next GPU memory: never 0.
    next: u64,
}

struct GpuMemory {
    bytes: usize,
    /// Where the CPU sees it.
    start: usize,
    /// What shows it there; nothing where that is the same address (a simulated CUDA's).
    mapping: Option<Mapping>,
}

/// Of this process: CUDA does not survive a fork.
static TABLE: PerProcess<Mutex<Table>> = PerProcess::new(|| {
    Mutex::new(Table {
        gdr: None,
        gpu: BTreeMap::new(),
        host: BTreeMap::new(),
        next: 1,
    })
});

/// Whether the CPU reaches GPU memory at the GPU's own addresses.
static IS_SIMULATED: AtomicBool = AtomicBool::new(false);

/// From now on GPU memory is taken to be where the CPU sees it too, as that of the simulated CUDA is. For tests: nothing of the
/// library that ships calls it.
#[doc(hidden)]
pub fn simulate() {
    IS_SIMULATED.store(true, Ordering::Relaxed);
}

/// Device memory with a CPU mapping, in the current context.
pub(crate) fn allocate_gpu(bytes: usize, flags: i32) -> Result<abi::MemDesc, CallError> {
    let device = foreign::allocate(bytes).map_err(CallError::cuda("allocate GPU memory"))?;
    let shown = show(device, bytes).inspect_err(|_| {
        // SAFETY: it was allocated above and shown to nobody. The first refusal is the one to report.
        let _ = unsafe { foreign::free(device) };
    })?;
    let start = shown.start;
    let mut table = table();
    let mh = table.next;
    table.next += 1;
    table.gpu.insert(device.get(), shown);
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

fn show(device: DevicePtr, bytes: usize) -> Result<GpuMemory, CallError> {
    pointer::set_sync_memops(device)
        .map_err(CallError::cuda("make copies of GPU memory synchronous"))?;
    if IS_SIMULATED.load(Ordering::Relaxed) {
        let start = device.get() as usize;
        let mapping = None;
        return Ok(GpuMemory {
            bytes,
            start,
            mapping,
        });
    }
    let refused = |source| CallError::Map { source };
    let gdr = match &mut table().gdr {
        Some(gdr) => gdr.clone(),
        unopened => unopened.insert(Gdr::open().map_err(refused)?).clone(),
    };
    // SAFETY: the memory is this library's, and is freed after its mapping.
    let pin = unsafe { gdr.pin_raw(device, bytes, PinFlags::default()) }.map_err(refused)?;
    let mapping = pin.map(MapRequest::Default).map_err(refused)?;
    Ok(GpuMemory {
        bytes,
        start: mapping.as_ptr().expose_provenance().get(),
        mapping: Some(mapping),
    })
}

/// Host memory in whole pages of its own, zeroed and registered.
pub(crate) fn allocate_host(bytes: usize, flags: i32) -> Result<abi::MemDesc, CallError> {
    let length = bytes.checked_next_multiple_of(registry::page());
    let length = length.ok_or(CallError::HostMemory { bytes })?;
    let start = map(length).ok_or(CallError::HostMemory { bytes })?;
    let address = start.expose_provenance();
    // SAFETY: memory that was just mapped, and is unmapped after its registration has ended.
    let device = unsafe { Lookup::default().device_address(address, length, Registration::Memory) };
    let device = device.inspect_err(|_| {
        // SAFETY: shown to nobody. The first refusal is the one to report.
        let _ = unsafe { registry::forget(address..address + length) };
        // SAFETY: as above.
        unsafe { unmap(start, length) };
    })?;
    table().host.insert(address, length);
    Ok(abi::MemDesc {
        d_ptr: device.get(),
        h_ptr: start,
        bar_ptr: std::ptr::null_mut(),
        flags,
        alloc_size: bytes,
        mh: 0,
    })
}

/// Takes the CPU's mapping away, then frees the memory. Without a context nothing is done.
///
/// # Safety
///
/// Neither the CPU nor the GPU uses it any more.
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
    drop(memory.and_then(|memory| memory.mapping));
    // SAFETY: it is this library's, and the caller promises that nobody uses it.
    unsafe { foreign::free(DevicePtr::new(device)) }.map_err(CallError::cuda("free GPU memory"))
}

/// Ends the registration, then unmaps the memory; where the first is refused, neither.
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
    // SAFETY: mapped with this length, and out of the table it is unmapped once.
    unsafe { unmap(host, length) };
    Ok(())
}

/// Pages from the system, and not from the heap: what is registered is nobody else's.
fn map(length: usize) -> Option<*mut c_void> {
    let (rights, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, wherever the kernel likes, disturbs none that is there.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, flags, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start)
}

/// # Safety
///
/// Mapped by [`map`] with this length, and used by nobody any more.
unsafe fn unmap(start: *mut c_void, length: usize) {
    // SAFETY: this function's own condition. A failure leaves the pages there.
    let _ = unsafe { libc::munmap(start, length) };
}

/// Where the CPU sees `bytes` bytes of GPU memory, if they are of ours.
pub(crate) fn host_address(device: usize, bytes: usize) -> Option<usize> {
    let table = table();
    let (start, memory) = table.gpu.range(..=device as u64).next_back()?;
    let offset = device - *start as usize;
    let is_within = offset < memory.bytes && bytes <= memory.bytes - offset;
    is_within.then_some(memory.start + offset)
}

/// A panic while the lock was held leaves maps that are whole.
fn table() -> MutexGuard<'static, Table> {
    TABLE.get().lock().unwrap_or_else(PoisonError::into_inner)
}
