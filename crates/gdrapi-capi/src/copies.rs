//! What a copy needs: its window, and whether mappings of several kinds are alive at a time. Nothing on a copy's way takes
//! a lock or makes a system call.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use gdrcopy::MappingType;
use gdrcopy::copy::Copier;

use crate::refusal::Refusal;
use crate::slots;

/// How many mappings of each type are alive. A forked child begins with its parent's numbers: at worst a fence too many. No
/// lock, which a child could inherit locked.
static ALIVE: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];
/// Whether they are of more than one.
static MIXED: AtomicBool = AtomicBool::new(false);

/// What copies `bytes` bytes at `device` through `handle`; `None` if that may not be (see [`refused`]) or there is nothing
/// to copy. It is there for as long as the handle stays mapped.
#[inline]
pub(crate) fn admit(handle: u64, device: usize, host: usize, bytes: usize) -> Option<NonNull<Copier>> {
    let window = slots::window(handle)?;
    let offset = device.wrapping_sub(window.start);
    // With no bytes to copy the difference wraps and is out of every range.
    let inside = offset < window.bytes && bytes.wrapping_sub(1) < window.bytes - offset;
    (inside && host != 0).then_some(window.copier)
}

/// Why [`admit`] gave nothing; `Ok` if a mapped handle has nothing to copy.
#[cold]
pub(crate) fn refused(handle: u64, device: usize, host: usize, bytes: usize) -> Result<(), Refusal> {
    if slots::window(handle).is_none() {
        return Err(slots::refusal(handle));
    }
    match (bytes, host) {
        (0, _) => Ok(()),
        (_, 0) => Err(Refusal::Null { what: "h_ptr" }),
        _ => Err(Refusal::Outside {
            handle,
            address: device,
            bytes,
        }),
    }
}

/// Whether mappings of more than one type are alive. Then a copy ends with a fence for everything: the CPU may hold back
/// accesses of one type longer than those of another, also where they reach the same memory.
#[inline]
pub(crate) fn mixed() -> bool {
    MIXED.load(Ordering::Relaxed)
}

/// A mapping of this type was made.
pub(crate) fn began(mapping: MappingType) {
    ALIVE[mapping as usize % 4].fetch_add(1, Ordering::SeqCst);
    count();
}

/// A mapping of this type is gone.
pub(crate) fn ended(mapping: MappingType) {
    // Each end has had its beginning.
    ALIVE[mapping as usize % 4].fetch_sub(1, Ordering::SeqCst);
    count();
}

fn count() {
    let types = ALIVE.iter().filter(|alive| alive.load(Ordering::SeqCst) > 0).count();
    MIXED.store(types > 1, Ordering::SeqCst);
}
