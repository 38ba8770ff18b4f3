//! Memory that the provider shares with the NIC, here the test. Accessed through a pointer, never through a Rust reference,
//! because the provider writes to it.

/// A range of such memory. It lives as long as the process.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    start: *mut u8,
    length: usize,
}

impl Memory {
    /// `length` bytes at `start`, from the provider.
    pub fn new(start: *mut u8, length: usize) -> Self {
        assert!(!start.is_null() || length == 0);
        Self { start, length }
    }

    pub fn address(self) -> usize {
        self.start.addr()
    }

    /// Length in bytes.
    pub fn length(self) -> usize {
        self.length
    }

    pub fn read(self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        // SAFETY: the provider's memory has this length, and the provider writes to it only in calls of this thread.
        unsafe { std::ptr::copy_nonoverlapping(self.start, bytes.as_mut_ptr(), self.length) };
        bytes
    }

    /// Four bytes at an offset.
    pub fn four(self, offset: usize) -> [u8; 4] {
        *self.read()[offset..].first_chunk().expect("four bytes")
    }

    pub fn write(self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length);
        // SAFETY: the range is checked above; otherwise as in `read`.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len())
        };
    }

    pub fn fill(self, byte: u8) {
        // SAFETY: as in `read`.
        unsafe { std::ptr::write_bytes(self.start, byte, self.length) };
    }
}
