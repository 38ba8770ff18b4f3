//! Registers host memory with CUDA in whole pages, when a word of it is first used.
//!
//! CUDA reports at each use whether memory is still registered, and its GPU address. This table only holds the registrations that
//! this library created and must end: when `gds_free_mapped_memory` frees the memory, or when it is used again after CUDA has dropped
//! the registration with its context. The library does not notice `free`. As with libgdsync, memory used by a GPU must not be
//! returned to the system (`munmap`, `free` of large blocks) and reused at the same address.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gdr_sys::process::PerProcess;
use gpu::foreign::{self, Owner};
use gpu::pages::{self, PageRanges};
use gpu::{DevicePtr, Registration};

use crate::call_error::CallError;
use crate::log::{self, Level};

/// Registered ranges and their owners.
type Ranges = PageRanges<Owner>;

/// Per process: CUDA does not survive a fork.
static RANGES: PerProcess<Mutex<Ranges>> = PerProcess::new(Mutex::default);

/// Translates the addresses of one list. Caches the last page, because consecutive words are usually in one page.
#[derive(Default)]
pub(crate) struct Lookup {
    /// CPU and GPU address of the last page.
    last: Option<(usize, DevicePtr)>,
}

impl Lookup {
    /// GPU address of `bytes` bytes of host memory in the current context. Registers them if needed.
    ///
    /// # Safety
    ///
    /// They are mapped memory or device registers of this process, and stay mapped while a GPU uses them.
    pub(crate) unsafe fn device_address(
        &mut self,
        address: usize,
        bytes: usize,
        how: Registration,
    ) -> Result<DevicePtr, CallError> {
        let pages = pages(address, bytes)?;
        let offset = (address - pages.start) as u64;
        if let Some((start, device)) = self.last
            && start == pages.start
            && pages.len() == page()
        {
            return Ok(device.offset(offset));
        }
        // SAFETY: the caller's promise; a page with mapped bytes is mapped.
        let found = unsafe { registered(&pages, address, bytes, how) }?;
        if pages.len() == page() {
            self.last = Some((pages.start, DevicePtr::new(found.get().wrapping_sub(offset))));
        }
        Ok(found)
    }
}

/// Registers whole pages that were just mapped and returns their GPU address. `None` if CUDA has a registration at their addresses:
/// of memory that was unmapped while registered.
///
/// # Safety
///
/// They stay mapped until [`forget`].
pub(crate) unsafe fn register_new(
    start: usize,
    bytes: usize,
) -> Result<Option<DevicePtr>, CallError> {
    let new = start..start + bytes;
    let mut ranges = ranges();
    // SAFETY: the caller's promise.
    let owner = unsafe { foreign::register(pointer(start), bytes, Registration::Memory) };
    let owner = owner.map_err(CallError::cuda("register host memory"))?;
    if owner == Owner::Others {
        return Ok(None);
    }
    // CUDA does not know them any more.
    for stale in ranges.overlapping(&new) {
        ranges.remove(stale);
    }
    keep(&mut ranges, new, owner);
    gpu_address(start, bytes).map(Some).inspect_err(|_| {
        // SAFETY: registered above and not used. Its error is ignored: the first one is reported.
        let _ = unsafe { remove(&mut ranges, &(start..start + bytes)) };
    })
}

/// Ends this library's registrations in memory that is about to be freed. On error the memory must not be freed: a GPU would keep
/// access to pages whose address may be reused.
///
/// # Safety
///
/// No GPU uses the memory any more.
pub(crate) unsafe fn forget(memory: Range<usize>) -> Result<(), CallError> {
    let mut ranges = ranges();
    // SAFETY: the caller's promise.
    unsafe { remove(&mut ranges, &memory) }
}

/// # Safety
///
/// As [`Lookup::device_address`].
unsafe fn registered(
    pages: &Range<usize>,
    address: usize,
    bytes: usize,
    how: Registration,
) -> Result<DevicePtr, CallError> {
    let mut ranges = ranges();
    let was_known = ranges.gaps(pages).is_empty();
    // SAFETY: the caller's promise.
    let not_registered = unsafe { register(&mut ranges, pages, how) }.err();
    let error = match gpu_address(address, bytes) {
        // Even if registering failed: other code has registered the memory, or CUDA allocated it.
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let is_dropped =
        matches!(&error, CallError::Cuda { source, .. } if foreign::is_not_registered(source));
    if !was_known || !is_dropped {
        return Err(not_registered.unwrap_or(error));
    }
    // The context is gone, or the owner has ended the registration.
    // SAFETY: CUDA has dropped the registration, so no GPU uses it.
    unsafe { remove(&mut ranges, pages) }?;
    // SAFETY: the caller's promise.
    unsafe { register(&mut ranges, pages, how) }?;
    gpu_address(address, bytes)
}

/// GPU address of contiguous bytes.
fn gpu_address(address: usize, bytes: usize) -> Result<DevicePtr, CallError> {
    let query = |address| {
        foreign::device_address(address)
            .map_err(CallError::cuda("find the GPU address of host memory"))
    };
    let first = query(address)?;
    let last = bytes - 1;
    if pages(address, bytes)?.len() > page() && query(address + last)? != first.offset(last as u64)
    {
        return Err(CallError::Scattered { address, bytes });
    }
    Ok(first)
}

/// Registers the pages that are not in the table.
///
/// # Safety
///
/// As [`Lookup::device_address`].
unsafe fn register(
    ranges: &mut Ranges,
    pages: &Range<usize>,
    how: Registration,
) -> Result<(), CallError> {
    for gap in ranges.gaps(pages) {
        // SAFETY: the caller's promise.
        let owner = unsafe { foreign::register(pointer(gap.start), gap.len(), how) };
        let owner = owner.map_err(CallError::cuda("register host memory"))?;
        if owner == Owner::Us || gap.len() == page() {
            keep(ranges, gap, owner);
            continue;
        }
        // Other code has registered some of the pages: register them one by one.
        for start in gap.step_by(page()) {
            // SAFETY: as above.
            let owner = unsafe { foreign::register(pointer(start), page(), how) };
            let owner = owner.map_err(CallError::cuda("register host memory"))?;
            keep(ranges, start..start + page(), owner);
        }
    }
    Ok(())
}

fn keep(ranges: &mut Ranges, range: Range<usize>, owner: Owner) {
    let text = match owner {
        Owner::Us => "registered",
        Owner::Others => "already registered",
    };
    let (start, bytes) = (range.start, range.len());
    log::write(Level::Debug, "register", format_args!("{bytes} bytes at {start:#x}: {text}"));
    ranges.insert(range, owner);
}

/// Removes overlapping ranges, after ending our registrations.
///
/// # Safety
///
/// No GPU uses them any more.
unsafe fn remove(ranges: &mut Ranges, range: &Range<usize>) -> Result<(), CallError> {
    for start in ranges.overlapping(range) {
        if ranges.get(start) == Some(&Owner::Us) {
            // SAFETY: it is our registration, and the caller promises that it is unused.
            let ended = unsafe { foreign::unregister(pointer(start)) };
            ended.map_err(CallError::cuda("end a registration of host memory"))?;
        }
        ranges.remove(start);
    }
    Ok(())
}

/// The pages of the bytes; at least one.
fn pages(address: usize, bytes: usize) -> Result<Range<usize>, CallError> {
    pages::pages(address, bytes).ok_or(CallError::Range { address, bytes })
}

/// Page size of the host in bytes.
pub(crate) fn page() -> usize {
    pages::page_size()
}

fn pointer(address: usize) -> NonNull<c_void> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
}

/// Ignores poisoning: every change is one step.
fn ranges() -> MutexGuard<'static, Ranges> {
    RANGES.get().lock().unwrap_or_else(PoisonError::into_inner)
}
