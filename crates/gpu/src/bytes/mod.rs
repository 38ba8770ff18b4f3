//! Access to memory that a GPU, a NIC or another thread may read and write at any time: pinned host
//! memory, queues, simulated GPU memory. No references into it exist. Each word is accessed once,
//! without tearing, except in copies of 1 KiB and more.

mod access;

use std::sync::atomic::{Ordering, fence};

/// Reads a 32-bit word with acquire ordering.
///
/// # Safety
///
/// `from` is valid for reads of 4 bytes, and a multiple of 4.
#[inline]
#[must_use]
pub unsafe fn load32(from: *const u8) -> u32 {
    // SAFETY: guaranteed by the caller.
    let value = unsafe { access::load32(from) };
    fence(Ordering::Acquire);
    value
}

/// Reads a 64-bit word with acquire ordering.
///
/// # Safety
///
/// `from` is valid for reads of 8 bytes, and a multiple of 8.
#[inline]
#[must_use]
pub unsafe fn load64(from: *const u8) -> u64 {
    // SAFETY: guaranteed by the caller.
    let value = unsafe { access::load64(from) };
    fence(Ordering::Acquire);
    value
}

/// Reads a byte with acquire ordering.
///
/// # Safety
///
/// `from` is valid for reads.
#[inline]
#[must_use]
pub unsafe fn load8(from: *const u8) -> u8 {
    // SAFETY: guaranteed by the caller.
    let value = unsafe { access::load8(from) };
    fence(Ordering::Acquire);
    value
}

/// Writes a 32-bit word with release ordering.
///
/// # Safety
///
/// `to` is valid for writes of 4 bytes, and a multiple of 4.
#[inline]
pub unsafe fn store32(to: *mut u8, value: u32) {
    fence(Ordering::Release);
    // SAFETY: guaranteed by the caller.
    unsafe { access::store32(to, value) };
}

/// Writes a 64-bit word with release ordering.
///
/// # Safety
///
/// `to` is valid for writes of 8 bytes, and a multiple of 8.
#[inline]
pub unsafe fn store64(to: *mut u8, value: u64) {
    fence(Ordering::Release);
    // SAFETY: guaranteed by the caller.
    unsafe { access::store64(to, value) };
}

/// Writes a byte with release ordering.
///
/// # Safety
///
/// `to` is valid for writes.
#[inline]
pub unsafe fn store8(to: *mut u8, value: u8) {
    fence(Ordering::Release);
    // SAFETY: guaranteed by the caller.
    unsafe { access::store8(to, value) };
}

/// Copies `count` bytes in no order: large copies by vectors, others 8 at a time where alignment
/// allows, else single bytes. Either side may be the caller's private memory.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of `count` bytes; they do not overlap.
pub unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: guaranteed by the caller.
    let mut done = unsafe { access::copy_vectors(to, from, count) };
    if to.addr() % 8 == from.addr() % 8 {
        // SAFETY: `done <= count`.
        let head = unsafe { to.add(done) }.align_offset(8).min(count - done);
        // SAFETY: `done + head <= count`.
        unsafe { copy_bytes(to.add(done), from.add(done), head) };
        done += head;
        while count - done >= 64 {
            // SAFETY: at least 64 bytes are left on both sides, and both addresses are now
            // multiples of 8.
            unsafe { access::copy_words(to.add(done), from.add(done)) };
            done += 64;
        }
        while count - done >= 8 {
            // SAFETY: at least 8 bytes are left on both sides, and both addresses are now multiples
            // of 8.
            unsafe { access::store64(to.add(done), access::load64(from.add(done))) };
            done += 8;
        }
    }
    // SAFETY: `done <= count`.
    unsafe { copy_bytes(to.add(done), from.add(done), count - done) };
}

/// Flushes write-combined stores from the CPU's buffers before later accesses.
pub fn drain() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction only orders stores; it touches no memory or flags.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("dsb st", options(nostack, preserves_flags));
    }
    fence(Ordering::SeqCst);
}

/// # Safety
///
/// As [`copy`].
unsafe fn copy_bytes(to: *mut u8, from: *const u8, count: usize) {
    let eights = count - count % 8;
    for position in (0..eights).step_by(8) {
        // SAFETY: `position + 8 <= count`.
        unsafe { access::copy_bytes(to.add(position), from.add(position)) };
    }
    for position in eights..count {
        // SAFETY: `position < count`.
        unsafe { access::store8(to.add(position), access::load8(from.add(position))) };
    }
}

/// Writes `value` to `count` bytes in no order.
///
/// # Safety
///
/// `to` is valid for writes of `count` bytes.
pub unsafe fn fill(to: *mut u8, value: u8, count: usize) {
    let head = to.align_offset(8).min(count);
    let word = u64::from_ne_bytes([value; 8]);
    let words = (count - head) / 8;
    for position in (0..head).chain(head + words * 8..count) {
        // SAFETY: `position < count`.
        unsafe { access::store8(to.add(position), value) };
    }
    let eights = words - words % 8;
    for position in (0..eights).step_by(8) {
        // SAFETY: 64 bytes at `head + 8 * position` end at `head + 8 * words <= count`, at a
        // multiple of 8.
        unsafe { access::fill_words(to.add(head + position * 8), word) };
    }
    for position in eights..words {
        // SAFETY: 8 bytes at `head + 8 * position` end at `head + 8 * words <= count`, at a
        // multiple of 8.
        unsafe { access::store64(to.add(head + position * 8), word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Miri is a thousand times slower: only the starts that divide into words differently.
    fn starts() -> Vec<usize> {
        if cfg!(miri) { vec![0, 3, 8] } else { (0..9).collect() }
    }

    fn counts() -> Vec<usize> {
        if cfg!(miri) {
            vec![0, 1, 5, 8, 21, 75, 140]
        } else {
            (0..150).chain(1020..1160).collect()
        }
    }

    #[test]
    fn copies_all_offsets_and_lengths() {
        let from: Vec<u8> = (0..1200).map(|position| (position % 251) as u8).collect();
        for source in starts() {
            for target in starts() {
                for count in counts() {
                    let mut to = [0xee_u8; 1200];
                    // SAFETY: at most 8 + 1159 of 1200 bytes, in two arrays.
                    unsafe { copy(to.as_mut_ptr().add(target), from.as_ptr().add(source), count) };
                    for (position, &byte) in to.iter().enumerate() {
                        let expected = match position.checked_sub(target) {
                            Some(inside) if inside < count => ((source + inside) % 251) as u8,
                            _ => 0xee,
                        };
                        assert_eq!(byte, expected, "{source} {target} {count} {position}");
                    }
                }
            }
        }
    }

    #[test]
    fn fill_stays_in_range() {
        for start in starts() {
            for count in counts() {
                let mut to = [0_u8; 1200];
                // SAFETY: at most 8 + 1159 of 1200 bytes.
                unsafe { fill(to.as_mut_ptr().add(start), 0x5a, count) };
                let written = to.iter().filter(|&&byte| byte == 0x5a).count();
                assert_eq!(written, count);
                assert!(to[start..start + count].iter().all(|&byte| byte == 0x5a));
            }
        }
    }
}
