//! Ordinary host memory that a device may read and write.

use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::Error;

/// Of which pages a buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// The machine's ordinary ones, usually of 4 KiB.
    #[default]
    Ordinary,
    /// Huge ones of 2 MiB, of the pool in `/proc/sys/vm/nr_hugepages`.
    Huge,
}

/// A huge page, where nothing else was set up at boot.
const HUGE: usize = 2 << 20;

/// Host memory of this process, zero at first. Clones are the same memory.
///
/// A device may write it at any time, so no reference into it exists: it is read and written by methods that touch each word
/// once.
#[derive(Debug, Clone)]
pub struct Buffer(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    start: NonNull<u8>,
    bytes: usize,
    /// What is mapped: whole pages.
    mapped: usize,
}

// SAFETY: the mapping is memory of the process, reached through `gpu::bytes` only; which thread does it makes no difference.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Buffer {
    /// Takes some.
    ///
    /// # Errors
    ///
    /// [`Error::Empty`], [`Error::Memory`] where the machine has none to give.
    pub fn new(bytes: usize, pages: Pages) -> Result<Self, Error> {
        if bytes == 0 {
            return Err(Error::Empty);
        }
        let failed = |source: io::Error| Error::Memory {
            bytes,
            pages,
            source,
        };
        let (flags, mapped) = match pages {
            Pages::Ordinary => (MapFlags::PRIVATE, Some(bytes)),
            Pages::Huge => (
                MapFlags::PRIVATE | MapFlags::HUGETLB,
                bytes.checked_next_multiple_of(HUGE),
            ),
        };
        let mapped = mapped.ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        // SAFETY: a new mapping at an address of the kernel's choice: nothing else is there.
        let start = unsafe {
            mmap_anonymous(
                null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        };
        let start = start.map_err(|errno| failed(errno.into()))?;
        let start =
            NonNull::new(start.cast()).ok_or_else(|| failed(io::ErrorKind::OutOfMemory.into()))?;
        Ok(Self(Arc::new(Owned {
            start,
            bytes,
            mapped,
        })))
    }

    /// Where it starts.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.0.start.as_ptr() as u64
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Never: nothing cannot be taken.
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
        // SAFETY: `at` has checked the range; `to` is another object, and exclusive.
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
        // SAFETY: `at` has checked the range. `from` is a slice, and so no part of this memory.
        unsafe { gpu::bytes::copy(to.as_ptr(), from.as_ptr(), from.len()) };
        Ok(())
    }

    /// Writes `value` to `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<(), Error> {
        let to = self.at(offset, bytes)?;
        // SAFETY: `at` has checked the range.
        unsafe { gpu::bytes::fill(to.as_ptr(), value, bytes) };
        Ok(())
    }

    /// One byte, as a device last wrote it: what comes before it in a message is there too.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn load(&self, offset: usize) -> Result<u8, Error> {
        let from = self.at(offset, 1)?;
        // SAFETY: `at` has checked the range.
        Ok(unsafe { gpu::bytes::load8(from.as_ptr()) })
    }

    /// Writes one byte.
    ///
    /// # Errors
    ///
    /// [`Error::Range`].
    pub fn store(&self, offset: usize, value: u8) -> Result<(), Error> {
        let to = self.at(offset, 1)?;
        // SAFETY: `at` has checked the range.
        unsafe { gpu::bytes::store8(to.as_ptr(), value) };
        Ok(())
    }

    fn at(&self, offset: usize, bytes: usize) -> Result<NonNull<u8>, Error> {
        check(offset, bytes, self.len())?;
        // SAFETY: the offset is inside the mapping, or one behind it.
        Ok(unsafe { self.0.start.add(offset) })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it was mapped here, nothing refers to it any more, and no device does: registrations hold the buffer.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

/// Whether a range is inside.
pub(crate) fn check(offset: usize, bytes: usize, size: usize) -> Result<(), Error> {
    match offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::Range {
            offset,
            bytes,
            size,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_beside_it() {
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
    fn what_is_outside_is_refused() {
        let buffer = Buffer::new(16, Pages::Ordinary).expect("memory");
        assert!(matches!(
            buffer.write(9, &[0; 8]),
            Err(Error::Range {
                offset: 9,
                bytes: 8,
                size: 16
            })
        ));
        assert!(buffer.read(usize::MAX, &mut [0; 2]).is_err());
        assert!(
            buffer.load(16).is_err()
                && buffer.store(16, 0).is_err()
                && buffer.fill(0, 17, 0).is_err()
        );
        assert!(matches!(Buffer::new(0, Pages::Ordinary), Err(Error::Empty)));
        assert!(matches!(
            Buffer::new(usize::MAX, Pages::Huge),
            Err(Error::Memory { .. })
        ));
    }
}
