//! Format of simulated dma-bufs, from the simulated CUDA to the simulated NIC: a descriptor of the
//! memfd of a whole allocation. The file position encodes the exported part, as a number of 4 KiB
//! pages and, below it, the first page, and above both the mapping; it travels with the descriptor.
//!
//! Unlike a real dma-buf, mapping or measuring this one covers the whole allocation.

/// Host page size in bytes.
pub const PAGE: u64 = 4096;

/// Bits of the first page's number, and of the number of pages less one.
const FIRST: u32 = 30;
/// Set for the PCIe mapping.
const PCIE: u64 = 1 << 62;

/// Part of a file, in whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub start: u64,
    pub bytes: u64,
    /// It was exported with the PCIe mapping, not with the default one.
    pub pcie: bool,
}

impl Part {
    /// File position that encodes the part; `None` if it is empty, not in whole pages, or not
    /// within 4 TiB.
    #[must_use]
    pub fn position(self) -> Option<u64> {
        let is_whole =
            self.start.is_multiple_of(PAGE) && self.bytes.is_multiple_of(PAGE) && self.bytes > 0;
        let end = self.start.checked_add(self.bytes)?;
        let is_within = end <= PAGE << FIRST;
        let mapping = if self.pcie { PCIE } else { 0 };
        (is_whole && is_within)
            .then_some(mapping | ((self.bytes / PAGE) << FIRST) | (self.start / PAGE))
    }

    /// Part encoded in a file position; `None` for the whole file.
    #[must_use]
    pub fn at(position: u64) -> Option<Self> {
        let pcie = position & PCIE != 0;
        let bytes = ((position & !PCIE) >> FIRST) * PAGE;
        let start = (position & ((1 << FIRST) - 1)) * PAGE;
        (bytes > 0).then_some(Self { start, bytes, pcie })
    }
}
