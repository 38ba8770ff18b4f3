//! Whole host pages, for registrations with a GPU driver: new ones, and ranges of known ones.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

/// How many addresses with a stale registration [`register_new`] skips.
const STALE_REGISTRATIONS: usize = 64;

/// Map of non-overlapping page ranges to values, by start address.
#[derive(Debug)]
pub struct PageRanges<T>(BTreeMap<usize, Known<T>>);

#[derive(Debug)]
struct Known<T> {
    end: usize,
    value: T,
}

impl<T> PageRanges<T> {
    /// Empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Inserts a range that overlaps no existing one ([`Self::gaps`]).
    pub fn insert(&mut self, range: Range<usize>, value: T) {
        self.0.insert(range.start, Known { end: range.end, value });
    }

    /// Value of the range that starts at `start`.
    #[must_use]
    pub fn get(&self, start: usize) -> Option<&T> {
        self.0.get(&start).map(|known| &known.value)
    }

    /// Mutable value of the range that starts at `start`.
    pub fn get_mut(&mut self, start: usize) -> Option<&mut T> {
        self.0.get_mut(&start).map(|known| &mut known.value)
    }

    /// Removes the range that starts at `start`.
    pub fn remove(&mut self, start: usize) -> Option<T> {
        self.0.remove(&start).map(|known| known.value)
    }

    /// Starts of the ranges that overlap this one, in order.
    #[must_use]
    pub fn overlapping(&self, range: &Range<usize>) -> Vec<usize> {
        let before = self.0.range(..range.end).rev();
        let mut starts: Vec<usize> = before
            .take_while(|(_, known)| known.end > range.start)
            .map(|(start, _)| *start)
            .collect();
        starts.reverse();
        starts
    }

    /// Parts of a range that the map does not cover, in order.
    #[must_use]
    pub fn gaps(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let mut gaps = Vec::new();
        let mut from = range.start;
        for start in self.overlapping(range) {
            if start > from {
                gaps.push(from..start);
            }
            from = self.0.get(&start).map_or(from, |known| known.end);
        }
        if from < range.end {
            gaps.push(from..range.end);
        }
        gaps
    }
}

impl<T> Default for PageRanges<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Maps zeroed pages.
///
/// # Errors
///
/// That of the kernel.
pub fn map(bytes: usize) -> io::Result<NonNull<u8>> {
    let (read_write, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at a kernel-chosen address replaces no existing one.
    let start =
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, read_write, private) }?;
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Unmaps pages of [`map`].
///
/// # Safety
///
/// Mapped with this size, and not used any more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's promise. The call fails only for arguments that `map` did not return.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
}

/// Maps zeroed pages and registers them. `register` returns `None` if their address is registered
/// already. Nobody else can have registered new pages: other code unmapped memory without
/// unregistering it, and a GPU would access the old pages there. Such addresses are skipped; `None`
/// after 64 of them.
///
/// # Errors
///
/// Those of `register`, and those that `failed` makes of the kernel's. Nothing stays mapped then.
pub fn register_new<T, E>(
    bytes: usize,
    failed: impl FnOnce(io::Error) -> E,
    mut register: impl FnMut(NonNull<u8>) -> Result<Option<T>, E>,
) -> Result<Option<(NonNull<u8>, T)>, E> {
    let mut unused = Vec::new();
    let made = loop {
        let start = match map(bytes) {
            Ok(start) => start,
            Err(error) => break Err(failed(error)),
        };
        match register(start) {
            Ok(Some(registered)) => break Ok(Some((start, registered))),
            Ok(None) if unused.len() < STALE_REGISTRATIONS => unused.push(start),
            ended => {
                unused.push(start);
                break ended.map(|_| None);
            }
        }
    };
    // Only now: the kernel would return the same address again.
    for start in unused {
        // SAFETY: mapped above; nothing is registered there by us, so nothing uses it.
        unsafe { unmap(start, bytes) };
    }
    made
}

/// Host page size in bytes.
#[must_use]
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Whole pages that hold the bytes; `None` if they exceed the address space.
#[must_use]
pub fn pages(address: usize, bytes: usize) -> Option<Range<usize>> {
    let page = page_size();
    let end = address.checked_add(bytes)?.checked_next_multiple_of(page)?;
    Some(address / page * page..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps() {
        let mut ranges = PageRanges::new();
        for (start, end) in [(10, 20), (30, 40), (40, 50)] {
            ranges.insert(start..end, ());
        }
        let parts_of = |start, end| -> Vec<(usize, usize)> {
            let parts = ranges.gaps(&(start..end));
            parts.into_iter().map(|part| (part.start, part.end)).collect()
        };
        assert_eq!(parts_of(0, 5), [(0, 5)]);
        assert_eq!(parts_of(0, 10), [(0, 10)]);
        assert_eq!(parts_of(10, 20), []);
        assert_eq!(parts_of(12, 18), []);
        assert_eq!(parts_of(15, 35), [(20, 30)]);
        assert_eq!(parts_of(30, 50), []);
        assert_eq!(parts_of(5, 60), [(5, 10), (20, 30), (50, 60)]);
        assert_eq!(parts_of(49, 51), [(50, 51)]);
        assert_eq!(ranges.overlapping(&(19..41)), [10, 30, 40]);
        assert_eq!(ranges.overlapping(&(20..30)), [0; 0]);
        assert_eq!((ranges.remove(30), ranges.get(30)), (Some(()), None));
        assert_eq!(ranges.gaps(&(0..60)), [0..10, 20..40, 50..60]);
    }

    #[test]
    fn rounds_to_whole_pages() {
        let page = page_size();
        assert_eq!(pages(page, 1), Some(page..2 * page));
        assert_eq!(pages(2 * page - 1, 2), Some(page..3 * page));
        assert_eq!(pages(page + 5, 0), Some(page..2 * page));
        assert_eq!(pages(usize::MAX - 1, 2), None);
        assert_eq!(
            pages(usize::MAX - 2 * page, page),
            Some((usize::MAX - 2 * page) / page * page..usize::MAX / page * page)
        );
    }
}
