//! Injected copy faults, to test that copy verification detects them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::span::{Keeper, Span};
use crate::bytes;

/// Page size for faults, in bytes; smaller copies use other units.
const PAGE: usize = 4096;
const PIECE: usize = 512;
/// Maximum delay of a late write, in work items.
const LATEST: u64 = 4;

/// Fault injected into each copy of a simulated GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Kind of fault.
    pub kind: Fault,
    /// Selects the faulty pages, together with the copy number, and the delay.
    pub seed: u64,
}

/// Copy fault. It affects one 4 KiB page of each copy of at least two pages, one 512-byte unit of
/// smaller copies from 1024 bytes, and all of still smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The page is not written.
    Drop,
    /// The page is written as zeros.
    Zero,
    /// The page and another of the same copy are swapped; in a copy of one unit, its halves. A
    /// 1-byte copy is unchanged.
    Swap,
    /// The page is written late with its data from the time of the copy: one to four work items
    /// later, or at the end of the stream. The stream holds the destination until then, even after
    /// a synchronisation. If the caller owns the destination after the copy, the page is never
    /// written.
    Delay,
}

/// Faults of a GPU and the number of its copies so far.
#[derive(Debug)]
pub struct FaultInjector {
    faults: Faults,
    copies: AtomicU64,
}

impl FaultInjector {
    /// Faults for the copies of one GPU.
    #[must_use]
    pub fn new(faults: Faults) -> Self {
        Self { faults, copies: AtomicU64::new(0) }
    }

    /// Fault of the next copy. `keeper` keeps its destination.
    pub fn next(&self, bytes: usize, keeper: Option<Keeper>) -> Option<Flaw> {
        let number = self.copies.fetch_add(1, Ordering::Relaxed);
        if bytes == 0 {
            return None;
        }
        let random = mix(self.faults.seed ^ mix(number));
        let size = match bytes {
            _ if bytes >= 2 * PAGE => PAGE,
            _ if bytes >= 2 * PIECE => PIECE,
            _ => bytes,
        };
        let pick = |among: usize| (random % among as u64) as usize;
        let start = pick(bytes.div_ceil(size)) * size;
        let piece = start..(start + size).min(bytes);
        Some(match (self.faults.kind, keeper) {
            (Fault::Zero, _) => Flaw::Zero(piece),
            (Fault::Swap, _) => swapped(bytes, size, random)?,
            (Fault::Delay, Some(keeper)) => {
                Flaw::Delay { piece, after: 1 + mix(random) % LATEST, keeper }
            }
            (Fault::Drop, _) | (Fault::Delay, None) => Flaw::Drop(piece),
        })
    }
}

/// Swaps two whole units, or the halves of the only one.
fn swapped(bytes: usize, size: usize, random: u64) -> Option<Flaw> {
    let whole = bytes / size;
    let (one, other, size) = if whole >= 2 {
        let one = (random % whole as u64) as usize;
        let further = 1 + (mix(random) % (whole as u64 - 1)) as usize;
        (one * size, (one + further) % whole * size, size)
    } else {
        (0, bytes - bytes / 2, bytes / 2)
    };
    let (first, second) = (one.min(other), one.max(other));
    (size > 0).then_some(Flaw::Swap { first, second, size })
}

/// Fault of one copy; ranges and offsets are in bytes of the copy.
#[derive(Debug)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Flaw {
    /// Not written.
    Drop(Range<usize>),
    /// Written as zeros.
    Zero(Range<usize>),
    /// One bit of the byte at this offset is flipped.
    Flip(usize),
    /// Swaps `size` bytes at `first` with those at `second`, at least `size` later.
    Swap { first: usize, second: usize, size: usize },
    /// Written after this many more work items.
    Delay { piece: Range<usize>, after: u64, keeper: Keeper },
}

impl Flaw {
    /// Copies with the fault.
    ///
    /// # Safety
    ///
    /// As [`bytes::copy`].
    pub(crate) unsafe fn copy(self, to: &Span, from: &Span, count: usize, late: &mut Late) {
        let part = |target: usize, range: Range<usize>| {
            // SAFETY: guaranteed by the caller; the flaw was made for a copy of `count` bytes, so
            // all its parts are within both sides.
            unsafe { bytes::copy(to.start.add(target), from.start.add(range.start), range.len()) };
        };
        let around = |piece: &Range<usize>| {
            part(0, 0..piece.start);
            part(piece.end, piece.end..count);
        };
        match self {
            Self::Drop(piece) => around(&piece),
            Self::Zero(piece) => {
                around(&piece);
                // SAFETY: as above.
                unsafe { bytes::fill(to.start.add(piece.start), 0, piece.len()) };
            }
            Self::Flip(offset) => {
                part(0, 0..count);
                // SAFETY: as above; the byte is within the copy.
                unsafe {
                    let byte = to.start.add(offset);
                    bytes::store8(byte, bytes::load8(byte) ^ 0x10);
                }
            }
            Self::Swap { first, second, size } => {
                part(0, 0..first);
                part(first, second..second + size);
                part(first + size, first + size..second);
                part(second, first..first + size);
                part(second + size, second + size..count);
            }
            Self::Delay { piece, after, keeper } => {
                let mut data = vec![0; piece.len()];
                // SAFETY: as above, into our own buffer.
                unsafe { bytes::copy(data.as_mut_ptr(), from.start.add(piece.start), piece.len()) };
                around(&piece);
                late.put(to.clone(), piece.start, data, after, keeper);
            }
        }
    }
}

/// Late writes of a stream.
#[derive(Debug, Default)]
pub(crate) struct Late {
    writes: Vec<Write>,
    /// Completed work items.
    items: u64,
}

#[derive(Debug)]
struct Write {
    to: Span,
    offset: usize,
    data: Vec<u8>,
    /// Write after this work item.
    after: u64,
    /// Keeps the destination alive.
    _keeper: Keeper,
}

impl Late {
    fn put(&mut self, to: Span, offset: usize, data: Vec<u8>, after: u64, keeper: Keeper) {
        self.writes.push(Write { to, offset, data, after: self.items + after, _keeper: keeper });
    }

    /// Counts a work item and performs the writes due after it.
    pub(crate) fn passed(&mut self) {
        let done = self.items;
        self.items += 1;
        for write in self.writes.extract_if(.., |write| write.after <= done) {
            write.perform();
        }
    }

    /// Performs the remaining writes at the end of the stream.
    pub(crate) fn finish(&mut self) {
        for write in self.writes.drain(..) {
            write.perform();
        }
    }
}

impl Write {
    fn perform(&self) {
        // SAFETY: the range is within the copy's destination, which the keeper has kept alive
        // since.
        unsafe { bytes::copy(self.to.start.add(self.offset), self.data.as_ptr(), self.data.len()) };
    }
}

/// The splitmix64 finaliser: every input bit affects every output bit.
fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaws(kind: Fault, seed: u64, bytes: usize) -> Vec<String> {
        let injector = FaultInjector::new(Faults { kind, seed });
        (0..20).map(|_| format!("{:?}", injector.next(bytes, None))).collect()
    }

    #[test]
    fn seed_determines_faults() {
        for kind in [Fault::Drop, Fault::Zero, Fault::Swap, Fault::Delay] {
            assert_eq!(flaws(kind, 7, 1 << 20), flaws(kind, 7, 1 << 20));
            assert_ne!(flaws(kind, 7, 1 << 20), flaws(kind, 8, 1 << 20));
        }
    }

    #[test]
    fn unit_size_depends_on_copy_size() {
        for (bytes, size) in [(1, 1), (4, 4), (1023, 1023), (1024, 512), (8191, 512), (8192, 4096)]
        {
            let injector = FaultInjector::new(Faults { kind: Fault::Drop, seed: 3 });
            for _ in 0..50 {
                let Some(Flaw::Drop(piece)) = injector.next(bytes, None) else {
                    panic!("{bytes}");
                };
                assert_eq!(piece.start % size, 0);
                assert!(piece.end <= bytes && (piece.len() == size || piece.end == bytes));
            }
        }
        let injector = FaultInjector::new(Faults { kind: Fault::Drop, seed: 3 });
        assert!(injector.next(0, None).is_none());
    }

    #[test]
    fn swapped_units_are_whole_and_distinct() {
        let injector = FaultInjector::new(Faults { kind: Fault::Swap, seed: 5 });
        for bytes in 2..20_000 {
            let Some(Flaw::Swap { first, second, size }) = injector.next(bytes, None) else {
                panic!("{bytes}");
            };
            assert!(first + size <= second && second + size <= bytes, "{bytes}");
        }
        assert!(injector.next(1, None).is_none());
    }
}
