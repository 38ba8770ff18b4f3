//! Host memory for device access.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::Error;

/// The pages of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// Default pages, usually 4 KiB.
    #[default]
    Ordinary,
    /// Huge pages of 2 MiB from the pool in `/proc/sys/vm/nr_hugepages`.
    Huge,
}

/// Size of a huge page unless configured at boot.
const HUGE: usize = 2 << 20;

/// Zero-initialised host memory of this process. Clones share the memory.
///
/// A device may write it at any time, so no reference into it exists: methods access each word once.
#[derive(Debug, Clone)]
pub struct Buffer(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    start: NonNull<u8>,
    bytes: usize,
    /// Length of the mapping: whole pages.
    mapped: usize,
}

// SAFETY: memory of the process, accessed only through `gpu::bytes`, from any thread.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Buffer {
    /// Allocates `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::Memory`] if the kernel has none left.
    pub fn new(bytes: usize, pages: Pages) -> Result<Self, Error> {
        if bytes == 0 {
            return Err(Error::Empty);
        }
        let failed = |source: io::Error| Error::Memory { bytes, pages, source };
        let (flags, mapped) = match pages {
            Pages::Ordinary => (MapFlags::PRIVATE, Some(bytes)),
            Pages::Huge => {
                (MapFlags::PRIVATE | MapFlags::HUGETLB, bytes.checked_next_multiple_of(HUGE))
            }
        };
        let mapped = mapped.ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
        let start = unsafe {
            mmap_anonymous(null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let start = start.map_err(|errno| failed(errno.into()))?;
        let start =
            NonNull::new(start.cast()).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self(Arc::new(Owned { start, bytes, mapped })))
    }

    /// Start address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.start.as_ptr() as u64
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Always false: empty buffers cannot be created.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads `to.len()` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        let from = self.at(offset, to.len())?;
        // SAFETY: `at` checked the range; `to` is a different, exclusively borrowed object.
        unsafe { gpu::bytes::copy(to.as_mut_ptr(), from.as_ptr(), to.len()) };
        Ok(())
    }

    /// Writes `from`.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        let to = self.at(offset, from.len())?;
        // SAFETY: `at` checked the range; `from` is a slice and cannot overlap this memory.
        unsafe { gpu::bytes::copy(to.as_ptr(), from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Sets `bytes` bytes to `value`.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<(), Error> {
        let to = self.at(offset, bytes)?;
        // SAFETY: `at` checked the range.
        unsafe { gpu::bytes::fill(to.as_ptr(), value, bytes) };
        Ok(())
    }

    /// Reads one byte with acquire ordering: the bytes of a message before it are visible too.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn load(&self, offset: usize) -> Result<u8, Error> {
        let from = self.at(offset, 1)?;
        // SAFETY: `at` checked the range.
        Ok(unsafe { gpu::bytes::load8(from.as_ptr()) })
    }

    /// Writes one byte.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn store(&self, offset: usize, value: u8) -> Result<(), Error> {
        let to = self.at(offset, 1)?;
        // SAFETY: `at` checked the range.
        unsafe { gpu::bytes::store8(to.as_ptr(), value) };
        Ok(())
    }

    /// Gives the whole pages that hold the first `bytes` bytes back to the kernel. All of their bytes are zero afterwards, and the next
    /// access takes a page fault. A device that pinned them goes on with the old pages; one with on-demand paging takes a fault too.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Release`]: EINVAL for huge pages.
    pub fn release(&self, bytes: usize) -> Result<(), Error> {
        let start = self.at(0, bytes)?;
        // SAFETY: this value's own mapping, which is private and anonymous: its pages read as zero afterwards. No reference to it exists.
        let released = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxDontNeed) };
        released.map_err(|errno| Error::Release { source: errno.into() })
    }

    fn at(&self, offset: usize, bytes: usize) -> Result<NonNull<u8>, Error> {
        check(offset, bytes, self.len())?;
        // SAFETY: the offset is within the mapping, or at its end.
        Ok(unsafe { self.0.start.add(offset) })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: mapped by this value; no reference to it exists, and registrations hold the buffer.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

/// Checks that a range lies inside.
pub(crate) fn check(offset: usize, bytes: usize, size: usize) -> Result<(), Error> {
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::Range { offset, bytes, size }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_writes() {
        let buffer = Buffer::new(5000, Pages::Ordinary).expect("memory");
        buffer.write(4090, b"ten bytes!").expect("inside");
        buffer.fill(4100, 900, 0x5a).expect("inside");
        buffer.store(0, 7).expect("inside");
        let mut seen = vec![0xff; 5000];
        buffer.read(0, &mut seen).expect("inside");
        let mut expected = vec![0; 4090];
        expected[0] = 7;
        expected.extend_from_slice(b"ten bytes!");
        expected.extend_from_slice(&[0x5a; 900]);
        assert_eq!(seen, expected);
        assert_eq!(buffer.load(4091).expect("inside"), b'e');
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no madvise")]
    fn released_pages_are_zero() {
        let page = rustix::param::page_size();
        let buffer = Buffer::new(page * 3, Pages::Ordinary).expect("memory");
        buffer.fill(0, page * 3, 0x5a).expect("inside");
        buffer.release(page + 1).expect("released");
        let mut seen = vec![0xff; page * 3];
        buffer.read(0, &mut seen).expect("inside");
        assert!(seen[..page * 2].iter().all(|byte| *byte == 0));
        assert!(seen[page * 2..].iter().all(|byte| *byte == 0x5a));
        assert!(buffer.release(page * 3 + 1).is_err());
    }

    #[test]
    fn rejects_ranges_outside() {
        let buffer = Buffer::new(16, Pages::Ordinary).expect("memory");
        assert!(matches!(
            buffer.write(9, &[0; 8]),
            Err(Error::Range { offset: 9, bytes: 8, size: 16 })
        ));
        assert!(buffer.read(usize::MAX, &mut [0; 2]).is_err());
        assert!(
            buffer.load(16).is_err()
                && buffer.store(16, 0).is_err()
                && buffer.fill(0, 17, 0).is_err()
        );
        assert!(matches!(Buffer::new(0, Pages::Ordinary), Err(Error::Empty)));
        assert!(matches!(Buffer::new(usize::MAX, Pages::Huge), Err(Error::Memory { .. })));
    }
}
