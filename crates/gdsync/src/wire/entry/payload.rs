//! The payload of a WQE: data segments or inline data.

use crate::wire::{DataSegment, Error, SEGMENT, fields};

/// The payload of a WQE.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Registered memory. Encoding omits segments of 0 bytes.
    Segments(Vec<DataSegment>),
    /// Inline data. If empty, encoded as no segments.
    Inline(Vec<u8>),
}

/// Bit 31 of a segment's first word marks inline data.
const INLINE: u32 = 1 << 31;
/// Bytes of an inline segment's header.
const HEADER: usize = 4;
/// Bytes of an atomic operation, whatever the length of its segment (`MLX5_ATOMIC_SIZE`).
const ATOMIC: u32 = 8;

impl Payload {
    /// No payload.
    #[must_use]
    pub fn none() -> Self {
        Self::Segments(Vec::new())
    }

    /// Length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Segments(segments) => {
                segments.iter().map(|segment| u64::from(segment.length)).sum()
            }
            Self::Inline(bytes) => bytes.len() as u64,
        }
    }

    /// Number of 16-byte segments.
    pub(super) fn segments(&self) -> usize {
        match self {
            Self::Segments(segments) => present(segments).count(),
            Self::Inline(bytes) if bytes.is_empty() => 0,
            Self::Inline(bytes) => (HEADER + bytes.len()).div_ceil(SEGMENT),
        }
    }

    /// Encodes it at `offset`. Segments of an atomic operation get a length of 8 bytes, as in rdma-core.
    pub(super) fn put(&self, to: &mut [u8], offset: usize, atomic: bool) -> Result<(), Error> {
        match self {
            Self::Inline(bytes) if bytes.is_empty() => Ok(()),
            // The length fits: a WQE has at most 63 segments.
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

    /// Decodes all of `from`, whose length is a multiple of 16. Segments of an atomic operation must have 8 bytes.
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
            // No WQE of ours has inline data after a data segment.
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

/// The segments to encode.
fn present(segments: &[DataSegment]) -> impl Iterator<Item = &DataSegment> {
    segments.iter().filter(|segment| segment.length != 0)
}
