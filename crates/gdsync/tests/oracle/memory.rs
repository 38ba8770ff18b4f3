//! Memory that the provider shares with the NIC, which here is the test: its bytes are read and written through a pointer,
//! never through a Rust reference, for the provider writes to it too.

/// A piece of such memory. It lives as long as the process.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    start: *mut u8,
    length: usize,
}

impl Memory {
    /// So many bytes at `start`, as the provider told.
    pub fn new(start: *mut u8, length: usize) -> Self {
        assert!(!start.is_null() || length == 0);
        Self { start, length }
    }

    pub fn address(self) -> usize {
        self.start.addr()
    }

    /// Its length in bytes.
    pub fn length(self) -> usize {
        self.length
    }

    pub fn read(self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        // SAFETY: the provider's memory of this length, which only this thread makes it write to.
        unsafe { std::ptr::copy_nonoverlapping(self.start, bytes.as_mut_ptr(), self.length) };
        bytes
    }

    /// Four bytes of it.
    pub fn four(self, offset: usize) -> [u8; 4] {
        *self.read()[offset..].first_chunk().expect("four bytes")
    }

    /// Puts bytes at an offset.
    pub fn write(self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length);
        // SAFETY: within the memory, as just checked; as above.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len())
        };
    }

    pub fn fill(self, byte: u8) {
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(self.start, byte, self.length) };
    }
}
