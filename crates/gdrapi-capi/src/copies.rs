//! What a copy needs: its window, and whether mappings of several kinds are alive at a time. Nothing on a copy's way takes
//! a lock or makes a system call.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use gdrcopy::MappingType;
use gdrcopy::copy::Copier;

use crate::refusal::Refusal;
use crate::slots;

/// How many mappings of each type are alive. A forked child begins with its parent's numbers: at worst a fence too many.
static ALIVE: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];

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

/// After a copy: orders it against copies through mappings of another type, which the CPU may hold back separately.
#[inline]
pub(crate) fn settle() {
    let alive = ALIVE.iter().filter(|alive| alive.load(Ordering::Relaxed) > 0).count();
    if alive > 1 {
        fence(Ordering::SeqCst);
    }
}

/// A mapping of this type was made.
pub(crate) fn began(mapping: MappingType) {
    alive(mapping).fetch_add(1, Ordering::Relaxed);
}

/// A mapping of this type is gone.
pub(crate) fn ended(mapping: MappingType) {
    alive(mapping).fetch_sub(1, Ordering::Relaxed);
}

fn alive(mapping: MappingType) -> &'static AtomicU32 {
    match mapping {
        MappingType::WriteCombining => &ALIVE[0],
        MappingType::Caching => &ALIVE[1],
        MappingType::Device | MappingType::None => &ALIVE[2],
    }
}
