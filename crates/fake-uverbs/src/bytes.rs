//! Bounds-checked reads and writes of numbers in a command and its response, in native byte order.

/// A command without its 8-byte header. Bytes past its end read as zero.
#[derive(Clone, Copy)]
pub struct Request<'a>(pub &'a [u8]);

impl Request<'_> {
    /// `N` bytes.
    pub fn array<const N: usize>(self, offset: usize) -> [u8; N] {
        let mut value = [0; N];
        if let Some(found) = self.0.get(offset..offset + N) {
            value.copy_from_slice(found);
        }
        value
    }

    pub fn u8(self, offset: usize) -> u8 {
        self.array::<1>(offset)[0]
    }

    pub fn u16(self, offset: usize) -> u16 {
        u16::from_ne_bytes(self.array(offset))
    }

    pub fn u32(self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.array(offset))
    }

    pub fn i32(self, offset: usize) -> i32 {
        i32::from_ne_bytes(self.array(offset))
    }

    pub fn u64(self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.array(offset))
    }

    /// A GID: 16 bytes.
    pub fn gid(self, offset: usize) -> [u8; 16] {
        self.array(offset)
    }
}

/// A response of at most 256 bytes, zero at first; the caller takes as much as its buffer holds.
pub struct Answer([u8; 256]);

impl Answer {
    pub fn new() -> Self {
        Self([0; 256])
    }

    /// Writes bytes at an offset; those past the end are dropped.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    pub fn u8(&mut self, offset: usize, value: u8) {
        self.put(offset, &[value]);
    }

    pub fn u16(&mut self, offset: usize, value: u16) {
        self.put(offset, &value.to_ne_bytes());
    }

    pub fn u32(&mut self, offset: usize, value: u32) {
        self.put(offset, &value.to_ne_bytes());
    }

    pub fn u64(&mut self, offset: usize, value: u64) {
        self.put(offset, &value.to_ne_bytes());
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
