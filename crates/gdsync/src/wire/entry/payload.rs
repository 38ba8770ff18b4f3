//! What an entry moves: pieces of registered memory, or bytes of its own.

use crate::wire::{DataSegment, Error, SEGMENT, fields};

/// What an entry moves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Pieces of registered memory; those of no bytes are left out of the entry.
    Segments(Vec<DataSegment>),
    /// Bytes in the entry itself. None are the same as no segments.
    Inline(Vec<u8>),
}

/// Bit 31 of a segment's first word: bytes follow, not a key and an address.
const INLINE: u32 = 1 << 31;
/// Bytes of an inline segment's header.
const HEADER: usize = 4;
/// What an atomic operation moves, whatever the length of its segment (`MLX5_ATOMIC_SIZE`).
const ATOMIC: u32 = 8;

impl Payload {
    /// Nothing.
    #[must_use]
    pub fn none() -> Self {
        Self::Segments(Vec::new())
    }

    /// Bytes it moves.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Segments(segments) => segments
                .iter()
                .map(|segment| u64::from(segment.length))
                .sum(),
            Self::Inline(bytes) => bytes.len() as u64,
        }
    }

    /// Segments of 16 bytes that it takes.
    pub(super) fn segments(&self) -> usize {
        match self {
            Self::Segments(segments) => present(segments).count(),
            Self::Inline(bytes) if bytes.is_empty() => 0,
            Self::Inline(bytes) => (HEADER + bytes.len()).div_ceil(SEGMENT),
        }
    }

    /// Writes it from `offset` on; of an atomic operation every segment has 8 bytes, as rdma-core writes it.
    pub(super) fn put(&self, to: &mut [u8], offset: usize, atomic: bool) -> Result<(), Error> {
        match self {
            Self::Inline(bytes) if bytes.is_empty() => Ok(()),
            // Its length fits: an entry has 63 segments at most.
            Self::Inline(bytes) => {
                fields::put_u32(to, offset, INLINE | bytes.len() as u32)?;
                fields::put(to, offset + HEADER, bytes)
            }
            Self::Segments(segments) => {
                for (position, segment) in present(segments).enumerate() {
                    segment.fits()?;
                    let length = if atomic { ATOMIC } else { segment.length };
                    let segment = DataSegment { length, ..*segment };
                    segment.put(to, offset + position * SEGMENT)?;
                }
                Ok(())
            }
        }
    }

    /// Reads what fills `from`, whose length is a multiple of 16. An atomic operation's segments have 8 bytes each, as [`Payload::put`]
    /// writes them.
    pub(super) fn of(from: &[u8], atomic: bool) -> Result<Self, Error> {
        if from.is_empty() {
            return Ok(Self::none());
        }
        let first = fields::u32_at(from, 0)?;
        if first & INLINE != 0 {
            let length = (first & !INLINE) as usize;
            let room = from.len() - HEADER;
            let misfit = Error::Inline { length, room };
            if length == 0 || (HEADER + length).div_ceil(SEGMENT) * SEGMENT != from.len() {
                return Err(misfit);
            }
            let bytes = from.get(HEADER..HEADER + length).ok_or(misfit)?;
            return Ok(Self::Inline(bytes.to_vec()));
        }
        let each = (0..from.len()).step_by(SEGMENT).map(|offset| {
            let segment = DataSegment::at(from, offset)?;
            // Behind a segment of memory no bytes follow: no entry of ours has both.
            segment.fits()?;
            match segment.length {
                length if length == 0 || atomic && length != ATOMIC => {
                    Err(Error::SegmentLength { length })
                }
                _ => Ok(segment),
            }
        });
        each.collect::<Result<_, _>>().map(Self::Segments)
    }
}

/// Those that are written.
fn present(segments: &[DataSegment]) -> impl Iterator<Item = &DataSegment> {
    segments.iter().filter(|segment| segment.length != 0)
}
