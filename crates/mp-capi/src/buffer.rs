//! The program's buffers: registration, and ranges in registered memory.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use engine::Region;
use gdsync::MappedMemory;
use gpu::pages::page_size;
use gpu::pointer::{self, MemoryKind};
use gpu::{BorrowedMemory, DeviceMemory, DevicePtr};

use crate::call_error::CallError;
use crate::library::{Library, Registered, is_simulated};

/// Registers memory of the program.
///
/// # Safety
///
/// `address` is NULL, or memory of `length` bytes that stays allocated until the region is revoked.
pub(crate) unsafe fn register(
    library: &Library,
    address: *mut c_void,
    length: usize,
) -> Result<Registered, CallError> {
    let start = NonNull::new(address.cast::<u8>()).ok_or(CallError::Null { what: "addr" })?;
    let at = address.addr();
    if length == 0 || at.checked_add(length).is_none_or(|end| end > isize::MAX as usize) {
        return Err(CallError::Range { address: at, bytes: length });
    }
    let known = pointer::describe(DevicePtr::new(at as u64));
    let region = match known.as_ref().map(|known| known.kind) {
        Ok(MemoryKind::Managed) => return Err(CallError::Managed),
        // SAFETY: the caller's promise.
        Ok(MemoryKind::Device) if !is_simulated() => unsafe { device(library, at, length) }?,
        // SAFETY: the caller's promise.
        _ => unsafe { host(library, start, length) }?,
    };
    Ok(Registered { region, start: at })
}

/// # Safety
///
/// As [`register`].
unsafe fn host(library: &Library, start: NonNull<u8>, length: usize) -> Result<Region, CallError> {
    // SAFETY: the caller's promise; the program accesses its memory as it does beside any NIC.
    let borrowed = unsafe { BorrowedMemory::new(start, length, Arc::new(())) };
    let memory = borrowed.for_cpu(&library.gpu);
    let memory = memory.map_err(CallError::cuda("use the program's memory"))?;
    Ok(library.ranks.register(&MappedMemory::host(memory))?)
}

/// # Safety
///
/// As [`register`], for memory of the current GPU.
unsafe fn device(library: &Library, at: usize, length: usize) -> Result<Region, CallError> {
    // Ignored: a driver without the attribute needs none.
    let _ = pointer::set_sync_memops(DevicePtr::new(at as u64));
    // A dma-buf consists of whole pages, and so do allocations.
    let page = page_size();
    let start = at & !(page - 1);
    let end = (at + length).next_multiple_of(page);
    let address = DevicePtr::new(start as u64);
    // SAFETY: the caller's promise; the GPU's memory is allocated in whole pages.
    let memory = unsafe { DeviceMemory::foreign(&library.gpu, address, end - start) };
    let memory = memory.map_err(CallError::cuda("use the program's GPU memory"))?;
    let offset = at - start;
    Ok(library.ranks.register_gpu(&memory, offset..offset + length)?)
}

impl Registered {
    /// The range of a buffer.
    pub fn range(&self, buffer: *const c_void, bytes: usize) -> Result<Range<usize>, CallError> {
        let (address, length) = (buffer.addr(), self.region.len());
        let offset = address.checked_sub(self.start);
        let inside = offset.filter(|offset| {
            let end = offset.checked_add(bytes);
            end.is_some_and(|end| end <= length)
        });
        match inside {
            Some(offset) => Ok(offset..offset + bytes),
            None => Err(CallError::Outside { address, bytes, start: self.start, length }),
        }
    }
}

/// A size that C passes as a signed number.
pub(crate) fn size(value: i32) -> Result<usize, CallError> {
    usize::try_from(value).map_err(|_| CallError::Value { what: "size", value: value.into() })
}

/// A rank that C passes as a signed number.
pub(crate) fn rank(value: i32) -> Result<u32, CallError> {
    u32::try_from(value).map_err(|_| CallError::Value { what: "rank", value: value.into() })
}
