//! Copies of memory that somebody else may be writing: word by word, each word read or written once.
//!
//! Host memory a GPU writes, and the memory of a simulated GPU, are shared with others at any time, so no reference into them
//! exists and every access is atomic (relaxed): 8 bytes where both sides allow it, else single bytes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Copies `count` bytes.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of `count` bytes, now and by atomic operations; they do not overlap.
pub unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    let mut done = 0;
    if to.addr() % 8 == from.addr() % 8 {
        let head = to.align_offset(8).min(count);
        // SAFETY: `head <= count`.
        unsafe { copy_bytes(to, from, head) };
        done = head;
        while count - done >= 8 {
            // SAFETY: at least 8 bytes are left on both sides, and both addresses are now multiples of 8.
            unsafe {
                let word = AtomicU64::from_ptr(from.add(done).cast_mut().cast()).load(Relaxed);
                AtomicU64::from_ptr(to.add(done).cast()).store(word, Relaxed);
            }
            done += 8;
        }
    }
    // SAFETY: `done <= count`.
    unsafe { copy_bytes(to.add(done), from.add(done), count - done) };
}

/// Stores into write-combined memory leave the CPU's buffers before anything that comes after.
pub(crate) fn drain() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: an instruction that orders stores, and touches no memory or flags.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("dsb st", options(nostack, preserves_flags));
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// # Safety
///
/// As [`copy`].
unsafe fn copy_bytes(to: *mut u8, from: *const u8, count: usize) {
    for position in 0..count {
        // SAFETY: `position < count`.
        unsafe {
            let byte = AtomicU8::from_ptr(from.add(position).cast_mut()).load(Relaxed);
            AtomicU8::from_ptr(to.add(position)).store(byte, Relaxed);
        }
    }
}

/// Writes `value` to `count` bytes.
///
/// # Safety
///
/// `to` is valid for atomic writes of `count` bytes.
pub unsafe fn fill(to: *mut u8, value: u8, count: usize) {
    let head = to.align_offset(8).min(count);
    let word = u64::from_ne_bytes([value; 8]);
    let words = (count - head) / 8;
    for position in (0..head).chain(head + words * 8..count) {
        // SAFETY: `position < count`.
        unsafe { AtomicU8::from_ptr(to.add(position)).store(value, Relaxed) };
    }
    for position in 0..words {
        // SAFETY: 8 bytes at `head + 8 * position` end at `head + 8 * words <= count`, at a multiple of 8.
        unsafe { AtomicU64::from_ptr(to.add(head + position * 8).cast()).store(word, Relaxed) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_and_length_is_copied_whole_and_nothing_beside_it() {
        let from: Vec<u8> = (0..64).collect();
        for source in 0..9 {
            for target in 0..9 {
                for count in 0..40 {
                    let mut to = [0xee_u8; 64];
                    // SAFETY: at most 8 + 39 of 64 bytes, in two arrays.
                    unsafe { copy(to.as_mut_ptr().add(target), from.as_ptr().add(source), count) };
                    for (position, &byte) in to.iter().enumerate() {
                        let expected = match position.checked_sub(target) {
                            Some(inside) if inside < count => (source + inside) as u8,
                            _ => 0xee,
                        };
                        assert_eq!(byte, expected, "{source} {target} {count} {position}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_fill_stays_in_its_range() {
        for start in 0..9 {
            for count in 0..40 {
                let mut to = [0_u8; 64];
                // SAFETY: at most 8 + 39 of 64 bytes.
                unsafe { fill(to.as_mut_ptr().add(start), 0x5a, count) };
                let written = to.iter().filter(|&&byte| byte == 0x5a).count();
                assert_eq!(written, count);
                assert!(to[start..start + count].iter().all(|&byte| byte == 0x5a));
            }
        }
    }
}
