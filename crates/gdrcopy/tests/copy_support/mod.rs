//! Memory between guard pages: an access outside ends the test with a signal.

// Each test program uses a part of this module.
#![allow(dead_code)]

use std::ptr;

/// Accessible pages between two inaccessible ones.
pub struct Guarded {
    base: *mut u8,
    page: usize,
    pub len: usize,
}

impl Guarded {
    pub fn new(pages: usize) -> Guarded {
        // SAFETY: asks for a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), (pages + 2) * page, libc::PROT_NONE, flags, -1, 0)
        };
        assert_ne!(base, libc::MAP_FAILED);
        let base = base.cast::<u8>();
        // SAFETY: within the mapping created above.
        let opened = unsafe {
            libc::mprotect(base.add(page).cast(), pages * page, libc::PROT_READ | libc::PROT_WRITE)
        };
        assert_eq!(opened, 0);
        Guarded { base, page, len: pages * page }
    }

    pub fn start(&self) -> *mut u8 {
        // SAFETY: the second page of the mapping.
        unsafe { self.base.add(self.page) }
    }

    /// `len` bytes, `gap` from the first or from the last byte.
    pub fn place(&self, len: usize, gap: usize, at_end: bool) -> usize {
        if at_end { self.len - len - gap } else { gap }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the accessible pages, borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.len) }
    }

    /// Bytes that differ from their neighbours, from those a page or a line away, and between
    /// seeds.
    pub fn fill(&mut self, seed: u8) {
        // Repeats a prime number of bytes, which is fast even without optimisation.
        let pattern: Vec<u8> =
            (0..1021_u32).map(|index| (index * 7 + index / 256) as u8 ^ seed).collect();
        for chunk in self.bytes().chunks_mut(pattern.len()) {
            chunk.copy_from_slice(&pattern[..chunk.len()]);
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping created in `new`, no longer used.
        unsafe { libc::munmap(self.base.cast(), self.len + 2 * self.page) };
    }
}
