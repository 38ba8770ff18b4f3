//! Host memory that GPUs are to reach: registered with CUDA when a word of it is first named, in whole pages.
//!
//! CUDA itself says at each use whether the memory is registered still, and where the GPU sees it; what is kept here is what this
//! library has had registered, and so has to undo. That stays until the memory is freed by `gds_free_mapped_memory`, or until
//! CUDA has forgotten it (its context is gone) and it is used again: nobody tells this library of a `free`. As with libgdsync,
//! memory that was named is not to be given back to the system (`munmap`, `free` of large blocks) and used at the same address
//! again while the process uses it with a GPU.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu::foreign::{self, Owner};
use gpu::pages::{self, PageRanges};
use gpu::{DevicePtr, Registration};
use process::PerProcess;

use crate::call_error::CallError;
use crate::log::{self, Level};

/// Whose the registrations are.
type Ranges = PageRanges<Owner>;

/// Of this process: CUDA does not survive a fork.
static RANGES: PerProcess<Mutex<Ranges>> = PerProcess::new(Mutex::default);

/// Looks up the addresses of one list: consecutive words are mostly of one page, which is asked about once.
#[derive(Default)]
pub(crate) struct Lookup {
    /// A page, and where the GPU sees it.
    last: Option<(usize, DevicePtr)>,
}

impl Lookup {
    /// Where the GPU of the current context sees `bytes` bytes of host memory, which are registered if need be.
    ///
    /// # Safety
    ///
    /// They are memory of this process, or registers that it has mapped, and stay that while a GPU uses them.
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
        // SAFETY: the caller's promise; a page of which some bytes are memory is memory.
        let found = unsafe { registered(&pages, address, bytes, how) }?;
        if pages.len() == page() {
            self.last = Some((
                pages.start,
                DevicePtr::new(found.get().wrapping_sub(offset)),
            ));
        }
        Ok(found)
    }
}

/// Ends the registrations of ours that lie in memory that is about to be freed. Where CUDA refuses to, the memory is not to be
/// freed: a GPU would go on reaching its pages at an address that may be somebody else's by then.
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
    let refused = unsafe { register(&mut ranges, pages, how) }.err();
    let unseen = match seen(address, bytes) {
        // Whatever refused: somebody else has had it registered, or CUDA allocated it.
        Ok(found) => return Ok(found),
        Err(unseen) => unseen,
    };
    let is_forgotten =
        matches!(&unseen, CallError::Cuda { source, .. } if foreign::is_not_registered(source));
    if !was_known || !is_forgotten {
        return Err(refused.unwrap_or(unseen));
    }
    // Its context is gone, or the owner has ended the registration.
    // SAFETY: what CUDA has forgotten no GPU uses.
    unsafe { remove(&mut ranges, pages) }?;
    // SAFETY: the caller's promise.
    unsafe { register(&mut ranges, pages, how) }?;
    seen(address, bytes)
}

/// Where the GPU sees it, in one piece.
fn seen(address: usize, bytes: usize) -> Result<DevicePtr, CallError> {
    let ask = |address| {
        foreign::device_address(address)
            .map_err(CallError::cuda("tell where the GPU sees host memory"))
    };
    let first = ask(address)?;
    let last = bytes - 1;
    if pages(address, bytes)?.len() > page() && ask(address + last)? != first.offset(last as u64) {
        return Err(CallError::Scattered { address, bytes });
    }
    Ok(first)
}

/// Has the pages registered that are not known to be.
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
        // Some of its pages are somebody else's: the others one by one.
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
    let whose = match owner {
        Owner::Us => "registered",
        Owner::Others => "registered already",
    };
    let (start, bytes) = (range.start, range.len());
    log::say(
        Level::Debug,
        "register",
        format_args!("{bytes} bytes at {start:#x}: {whose}"),
    );
    ranges.insert(range, owner);
}

/// Forgets what overlaps the range, once it is ended where it is ours.
///
/// # Safety
///
/// No GPU uses it any more.
unsafe fn remove(ranges: &mut Ranges, range: &Range<usize>) -> Result<(), CallError> {
    for start in ranges.overlapping(range) {
        if ranges.get(start) == Some(&Owner::Us) {
            // SAFETY: it is ours, and nobody uses it: the caller's promise.
            let ended = unsafe { foreign::unregister(pointer(start)) };
            ended.map_err(CallError::cuda("end a registration of host memory"))?;
        }
        ranges.remove(start);
    }
    Ok(())
}

/// The pages that hold the bytes, of which there is one at least.
fn pages(address: usize, bytes: usize) -> Result<Range<usize>, CallError> {
    pages::pages(address, bytes).ok_or(CallError::Range { address, bytes })
}

/// Bytes of a page of the host.
pub(crate) fn page() -> usize {
    pages::page_size()
}

fn pointer(address: usize) -> NonNull<c_void> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(address)).unwrap_or(NonNull::dangling())
}

/// A panic while the lock was held leaves a map that is whole.
fn ranges() -> MutexGuard<'static, Ranges> {
    RANGES.get().lock().unwrap_or_else(PoisonError::into_inner)
}
