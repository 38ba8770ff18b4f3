//! What the simulated CUDA gives out as a dma-buf, and the simulated card takes: a descriptor of the file in memory that a
//! whole allocation is. Which part of it was exported is told by the descriptor's file position, as a number of 4 KiB pages
//! and, below it, the first of them: a file in memory has no offset of its own. The position goes along with the
//! descriptor, however that is handed on.
//!
//! A real dma-buf begins and ends with the part. Whoever maps this one, or asks for its size, meets the whole allocation.

/// A page of the host, in bytes.
pub const PAGE: u64 = 4096;

/// Bits of the number of the first page.
const FIRST: u32 = 31;

/// A part of a file, in whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub start: u64,
    pub bytes: u64,
}

impl Part {
    /// The file position that tells of it; none of a part that is none: of no bytes, not in whole pages, or not within 8 TiB.
    #[must_use]
    pub fn position(self) -> Option<u64> {
        let is_whole =
            self.start.is_multiple_of(PAGE) && self.bytes.is_multiple_of(PAGE) && self.bytes > 0;
        let end = self.start.checked_add(self.bytes)?;
        let is_within = end <= PAGE << FIRST;
        (is_whole && is_within).then_some(((self.bytes / PAGE) << FIRST) | (self.start / PAGE))
    }

    /// What a file position tells of; none where it tells of no pages: all of the file is meant then.
    #[must_use]
    pub fn at(position: u64) -> Option<Self> {
        let bytes = (position >> FIRST) * PAGE;
        let start = (position & ((1 << FIRST) - 1)) * PAGE;
        (bytes > 0).then_some(Self { start, bytes })
    }
}
