//! Receive WQEs: data segments, terminated by a key if they do not fill the WQE.

use super::{DataSegment, END_KEY, Error, SEGMENT};

/// Encodes a receive WQE at the start of `to`, whose length is the queue's stride (a multiple of 16), and returns its length in bytes.
///
/// Omits segments of 0 bytes. An end segment (length 0, [`END_KEY`], address 0) follows if there is room for one. Like rdma-core it
/// leaves the bytes after it: a NIC does not read past the end segment.
///
/// # Errors
///
/// [`Error::Short`] for more segments than the stride holds; [`Error::SegmentLength`].
pub fn encode(segments: &[DataSegment], to: &mut [u8]) -> Result<usize, Error> {
    let mut offset = 0;
    for segment in segments.iter().filter(|segment| segment.length != 0) {
        segment.fits()?;
        segment.put(to, offset)?;
        offset += SEGMENT;
    }
    if offset + SEGMENT <= to.len() {
        let end = DataSegment { length: 0, key: END_KEY, address: 0 };
        end.put(to, offset)?;
        offset += SEGMENT;
    }
    Ok(offset)
}

/// Decodes the segments of a receive WQE, which is as long as its queue's stride.
///
/// # Errors
///
/// [`Error::SegmentLength`] for a segment of 0 bytes that is not the end segment, or of 2^31 or more.
pub fn decode(from: &[u8]) -> Result<Vec<DataSegment>, Error> {
    let mut segments = Vec::new();
    for position in 0..from.len() / SEGMENT {
        let segment = DataSegment::at(from, position * SEGMENT)?;
        if segment.key == END_KEY {
            break;
        }
        if segment.length == 0 {
            return Err(Error::SegmentLength { length: 0 });
        }
        segment.fits()?;
        segments.push(segment);
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminates_short_wqes() {
        let segment =
            DataSegment { length: 0x0102_0304, key: 0x0506_0708, address: 0x1122_3344_5566_7788 };
        let bytes: Vec<u8> =
            (1..=8).chain([0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]).collect();
        let mut entry = [0xee; 48];
        assert_eq!(encode(&[segment], &mut entry), Ok(32));
        assert_eq!(entry[..16], bytes);
        assert_eq!(entry[16..24], [0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(entry[24..32], [0; 8]);
        assert_eq!(entry[32..], [0xee; 16]);
        let mut full = [0xee; 16];
        assert_eq!(encode(&[segment], &mut full), Ok(16));
        assert_eq!(full[..], bytes);
        assert_eq!(decode(&full).unwrap(), [segment]);
        assert_eq!(decode(&entry).unwrap(), [segment]);
    }

    #[test]
    fn omits_empty_segments() {
        let some = |length| DataSegment { length, key: 7, address: 8 };
        let mut entry = [0; 32];
        encode(&[some(0), some(5), some(0)], &mut entry).unwrap();
        assert_eq!(decode(&entry).unwrap(), [some(5)]);
        let three = encode(&[some(1), some(2), some(3)], &mut entry);
        assert_eq!(three, Err(Error::Short { need: 36, have: 32 }));
        let huge = encode(&[some(1 << 31)], &mut entry);
        assert_eq!(huge, Err(Error::SegmentLength { length: 1 << 31 }));
    }

    #[test]
    fn rejects_empty_segment_with_key() {
        // A NIC reads it as 2 GiB.
        assert_eq!(decode(&[0; 16]), Err(Error::SegmentLength { length: 0 }));
    }
}
