//! Access to the program's memory by address, through calls that are opaque to the compiler, and through atomic operations for
//! words that both sides write.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Registered bytes of this process, or bytes of a live queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub address: usize,
    pub bytes: usize,
}

/// Copies as `memmove` does.
///
/// # Safety
///
/// Both point to `bytes` bytes.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's guarantee.
    unsafe { libc::memmove(to.cast(), from.cast(), bytes) };
}

/// Concatenates the bytes of the segments. None if the allocation fails.
///
/// # Safety
///
/// Each segment is mapped for the duration of the call.
pub unsafe fn gather(from: &[Segment]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(from.iter().map(|segment| segment.bytes).sum()).ok()?;
    for segment in from {
        let filled = bytes.len();
        bytes.resize(filled + segment.bytes, 0);
        // SAFETY: the caller's guarantee, and the capacity reserved above.
        unsafe {
            copy(segment.address as *const u8, bytes.as_mut_ptr().add(filled), segment.bytes)
        };
    }
    Some(bytes)
}

/// Writes bytes to the segments in order; the rest of the segments is unchanged.
///
/// A single aligned word of 4 or 8 bytes is written atomically, because a program may poll it.
///
/// # Safety
///
/// Each segment is mapped and writable for the duration of the call.
pub unsafe fn scatter(bytes: &[u8], to: &[Segment]) {
    let mut left = bytes;
    for segment in to {
        let (now, later) = left.split_at(segment.bytes.min(left.len()));
        left = later;
        match (<[u8; 8]>::try_from(now), <[u8; 4]>::try_from(now)) {
            (Ok(word), _) if segment.address % 8 == 0 => {
                // SAFETY: the caller's guarantee; aligned.
                let place = unsafe { AtomicU64::from_ptr(segment.address as *mut u64) };
                place.store(u64::from_ne_bytes(word), Ordering::Release);
            }
            (_, Ok(word)) if segment.address % 4 == 0 => {
                // SAFETY: as above.
                let place = unsafe { AtomicU32::from_ptr(segment.address as *mut u32) };
                place.store(u32::from_ne_bytes(word), Ordering::Release);
            }
            // SAFETY: the caller's guarantee, and no more bytes than the segment has.
            _ => unsafe { copy(now.as_ptr(), segment.address as *mut u8, now.len()) },
        }
    }
}

/// Changes an 8-byte word atomically and returns the old value.
///
/// # Safety
///
/// The address is mapped and writable for the duration of the call, and a multiple of 8.
pub unsafe fn change(address: usize, changed: impl Fn(u64) -> u64) -> u64 {
    // SAFETY: the caller's guarantee.
    let word = unsafe { AtomicU64::from_ptr(address as *mut u64) };
    let (Ok(old) | Err(old)) =
        word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(changed(old)));
    old
}

/// Reads a big-endian word of a doorbell record.
///
/// # Safety
///
/// The address is mapped for the duration of the call, and a multiple of 4.
pub unsafe fn record(address: usize) -> u32 {
    // SAFETY: the caller's guarantee.
    let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
    u32::from_be(word.load(Ordering::Acquire))
}

/// Writes a word of a doorbell record.
///
/// # Safety
///
/// As [`record`], and writable.
pub unsafe fn set_record(address: usize, value: u32) {
    // SAFETY: the caller's guarantee.
    let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
    word.store(value.to_be(), Ordering::Release);
}

/// Copies from a ring, wrapping around at its end.
///
/// # Safety
///
/// The ring is mapped for the duration of the call.
pub unsafe fn ring(ring: Segment, from: usize, into: &mut [u8]) {
    let mut filled = 0;
    while filled < into.len() && ring.bytes > 0 {
        let at = (from + filled) % ring.bytes;
        let bytes = (ring.bytes - at).min(into.len() - filled);
        // SAFETY: the caller's guarantee; within the ring and the buffer.
        unsafe { copy((ring.address + at) as *const u8, into.as_mut_ptr().add(filled), bytes) };
        filled += bytes;
    }
}

/// Writes a 64-byte CQE; the last 4 bytes, with the owner bit, atomically and last.
///
/// # Safety
///
/// The address points to 64 writable bytes that stay mapped for the call, and is a multiple of 64.
pub unsafe fn completion(address: usize, cqe: &[u8; 64]) {
    let (body, last) = cqe.split_at(60);
    // SAFETY: the caller's guarantee.
    unsafe { copy(body.as_ptr(), address as *mut u8, body.len()) };
    let last = last.try_into().map_or(0, u32::from_ne_bytes);
    fence(Ordering::Release);
    // SAFETY: the caller's guarantee.
    let word = unsafe { AtomicU32::from_ptr((address + 60) as *mut u32) };
    word.store(last, Ordering::Release);
}
