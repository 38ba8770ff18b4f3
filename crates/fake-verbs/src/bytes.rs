//! Copies bytes, or delivers them wrong as the machine file asks.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Memory of this process: registered, or owned by this library.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    pub address: usize,
    pub bytes: usize,
    pub is_device_memory: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Bytes,
    Zeros,
    Nothing,
    /// One bit of the middle byte is wrong.
    Flipped,
}

/// Total length of the segments, in bytes.
pub fn length(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.bytes).sum()
}

/// The first `bytes` bytes of the segments.
pub fn first(segments: &[Segment], mut bytes: usize) -> Vec<Segment> {
    let mut some = Vec::new();
    for segment in segments {
        let part = segment.bytes.min(bytes);
        if part > 0 {
            some.push(Segment { bytes: part, ..*segment });
        }
        bytes -= part;
    }
    some
}

/// The segments after the first `bytes` bytes.
pub fn after(segments: &[Segment], mut bytes: usize) -> Vec<Segment> {
    let mut some = Vec::new();
    for segment in segments {
        let part = segment.bytes.min(bytes);
        if part < segment.bytes {
            let (address, left) = (segment.address + part, segment.bytes - part);
            some.push(Segment { address, bytes: left, ..*segment });
        }
        bytes -= part;
    }
    some
}

/// Delivers; the target is as long as the source. The last bytes arrive last, so a poller that sees them sees the whole message.
///
/// # Safety
///
/// All segments can be read, and those of `to` written.
pub unsafe fn deliver(from: &[Segment], to: &[Segment], how: Delivery) {
    if how == Delivery::Nothing {
        return;
    }
    if how == Delivery::Zeros {
        for segment in to {
            // SAFETY: the caller's guarantee.
            unsafe { pointer::<u8>(segment.address).write_bytes(0, segment.bytes) };
        }
        return;
    }
    let total = length(to);
    let mut done = 0;
    while done < total {
        let (Some(source), Some(target)) =
            (after(from, done).first().copied(), after(to, done).first().copied())
        else {
            return;
        };
        let bytes = source.bytes.min(target.bytes);
        // SAFETY: both segments are that long, and the caller's guarantee.
        unsafe { copy(source.address, target.address, bytes) };
        done += bytes;
    }
    if how == Delivery::Flipped
        && let Some(middle) = after(to, total / 2).first()
    {
        let middle = pointer::<u8>(middle.address);
        // SAFETY: the caller's guarantee; the middle byte lies within the segment.
        unsafe { middle.write_volatile(middle.read_volatile() ^ 0x10) };
    }
}

/// Copies, with one store for the last word, after all other bytes.
///
/// # Safety
///
/// `bytes` bytes can be read at `from` and written at `to`; they may overlap.
unsafe fn copy(from: usize, to: usize, bytes: usize) {
    let end = to + bytes;
    let last = [8, 4].into_iter().find(|size| bytes >= *size && end.is_multiple_of(*size));
    let last = last.unwrap_or(1);
    // Read first: the copy of the rest may overwrite it.
    let mut word = [0; 8];
    // SAFETY: the end of the source, which is at least that long.
    unsafe { pointer::<u8>(from + bytes - last).copy_to(word.as_mut_ptr(), last) };
    // SAFETY: the caller's guarantee.
    unsafe { pointer::<u8>(from).copy_to(pointer(to), bytes - last) };
    fence(Ordering::Release);
    // SAFETY: the end of the target, aligned for a word of this size.
    unsafe {
        match last {
            8 => AtomicU64::from_ptr(pointer(end - 8))
                .store(u64::from_ne_bytes(word), Ordering::Release),
            4 => AtomicU32::from_ptr(pointer(end - 4))
                .store(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]), Ordering::Release),
            _ => pointer::<u8>(end - 1).write_volatile(word[0]),
        }
    }
}

/// Changes 8 bytes atomically and returns the old value.
///
/// # Safety
///
/// 8 bytes at `address`, a multiple of 8, can be read and written.
pub unsafe fn change(address: usize, change: impl Fn(u64) -> u64) -> u64 {
    // SAFETY: the caller's guarantee.
    let word = unsafe { AtomicU64::from_ptr(pointer(address)) };
    let order = Ordering::SeqCst;
    word.fetch_update(order, order, |old| Some(change(old))).unwrap_or(0)
}

fn pointer<T>(address: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address)
}
