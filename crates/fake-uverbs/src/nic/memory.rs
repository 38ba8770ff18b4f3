//! The program's memory, as a NIC reaches it: by address, through calls that the compiler cannot look into, and words that
//! both sides write by atomic operations.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Bytes of this process that were registered, or that belong to a live queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub address: usize,
    pub bytes: usize,
}

/// Copies as `memmove` does.
///
/// # Safety
///
/// Both lead to so many bytes.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: this function's condition.
    unsafe { libc::memmove(to.cast(), from.cast(), bytes) };
}

/// All bytes of the segments, one after the other. None where there is no room for them.
///
/// # Safety
///
/// Each leads to memory that stays mapped for the call.
pub unsafe fn gather(from: &[Segment]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(from.iter().map(|segment| segment.bytes).sum())
        .ok()?;
    for segment in from {
        let filled = bytes.len();
        bytes.resize(filled + segment.bytes, 0);
        // SAFETY: this function's condition, and the room of the line before.
        unsafe {
            copy(
                segment.address as *const u8,
                bytes.as_mut_ptr().add(filled),
                segment.bytes,
            )
        };
    }
    Some(bytes)
}

/// Puts bytes into the segments, in their order; what is left of the segments keeps its bytes.
///
/// A word of four or eight bytes that is alone, and aligned, is written at once: somebody may watch it.
///
/// # Safety
///
/// Each leads to memory that stays mapped for the call, and may be written.
pub unsafe fn scatter(bytes: &[u8], to: &[Segment]) {
    let mut left = bytes;
    for segment in to {
        let (now, later) = left.split_at(segment.bytes.min(left.len()));
        left = later;
        match (<[u8; 8]>::try_from(now), <[u8; 4]>::try_from(now)) {
            (Ok(word), _) if segment.address % 8 == 0 => {
                // SAFETY: this function's condition; aligned.
                let place = unsafe { AtomicU64::from_ptr(segment.address as *mut u64) };
                place.store(u64::from_ne_bytes(word), Ordering::Release);
            }
            (_, Ok(word)) if segment.address % 4 == 0 => {
                // SAFETY: as above.
                let place = unsafe { AtomicU32::from_ptr(segment.address as *mut u32) };
                place.store(u32::from_ne_bytes(word), Ordering::Release);
            }
            // SAFETY: this function's condition, and no more bytes than the segment has.
            _ => unsafe { copy(now.as_ptr(), segment.address as *mut u8, now.len()) },
        }
    }
}

/// Changes a word of eight bytes at once; what was there.
///
/// # Safety
///
/// The address leads to memory that stays mapped for the call, may be written, and is a multiple of eight.
pub unsafe fn change(address: usize, changed: impl Fn(u64) -> u64) -> u64 {
    // SAFETY: this function's condition.
    let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
    let (Ok(old) | Err(old)) = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
        Some(changed(old))
    });
    old
}

/// A big-endian word of a doorbell record.
///
/// # Safety
///
/// The address leads to memory that stays mapped for the call, and is a multiple of four.
pub unsafe fn record(address: usize) -> u32 {
    // SAFETY: this function's condition.
    let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
    u32::from_be(word.load(Ordering::Acquire))
}

/// Writes such a word.
///
/// # Safety
///
/// As above, and the memory may be written.
pub unsafe fn set_record(address: usize, value: u32) {
    // SAFETY: this function's condition.
    let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
    word.store(value.to_be(), Ordering::Release);
}

/// Bytes of a ring, from a place in it on, and at its end from its beginning on.
///
/// # Safety
///
/// The ring stays mapped for the call.
pub unsafe fn ring(ring: Segment, from: usize, into: &mut [u8]) {
    let mut filled = 0;
    while filled < into.len() && ring.bytes > 0 {
        let at = (from + filled) % ring.bytes;
        let bytes = (ring.bytes - at).min(into.len() - filled);
        // SAFETY: this function's condition; within the ring and within the room.
        unsafe {
            copy(
                (ring.address + at) as *const u8,
                into.as_mut_ptr().add(filled),
                bytes,
            )
        };
        filled += bytes;
    }
}

/// Writes a completion's 64 bytes: the last four, which say whose it is, at once and after all others.
///
/// # Safety
///
/// The address leads to 64 bytes that stay mapped for the call, may be written, and is a multiple of 64.
pub unsafe fn completion(address: usize, entry: &[u8; 64]) {
    let (body, last) = entry.split_at(60);
    // SAFETY: this function's condition.
    unsafe { copy(body.as_ptr(), address as *mut u8, body.len()) };
    let last = last.try_into().map_or(0, u32::from_ne_bytes);
    fence(Ordering::Release);
    // SAFETY: this function's condition.
    let word = unsafe { AtomicU32::from_ptr((address + 60) as *mut u32) };
    word.store(last, Ordering::Release);
}
