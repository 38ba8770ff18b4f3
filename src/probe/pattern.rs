//! Bytes that tell where they belong, and what is wrong where they do not.

use std::fmt;

/// A sequence of bytes without end in which no part looks like another, so that a byte in the wrong place is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern(u64);

impl Pattern {
    /// One of many: patterns of different seeds agree in one byte of 256 by chance.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The bytes from this place on.
    pub fn bytes(self, from: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(from, &mut bytes);
        bytes
    }

    /// Fills a buffer with the bytes from this place on.
    pub fn fill(self, from: usize, buffer: &mut [u8]) {
        let word = |at: usize| self.word((at / 8) as u64).to_le_bytes();
        let head = (from.next_multiple_of(8) - from).min(buffer.len());
        let (start, rest) = buffer.split_at_mut(head);
        if !start.is_empty() {
            let inside = from % 8;
            start.copy_from_slice(&word(from)[inside..inside + head]);
        }
        let mut at = from + head;
        let mut chunks = rest.chunks_exact_mut(8);
        for chunk in &mut chunks {
            chunk.copy_from_slice(&word(at));
            at += 8;
        }
        let tail = chunks.into_remainder();
        let count = tail.len();
        tail.copy_from_slice(&word(at)[..count]);
    }

    /// Steele, Lea and Flood's SplitMix64, which gives any word of the sequence at once.
    fn word(self, at: u64) -> u64 {
        let mut z = self.0.wrapping_add((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Bytes that are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Where the first is, from the start of what was compared.
    pub at: usize,
    /// What should be there.
    pub expected: u8,
    /// What is there.
    pub found: u8,
    /// How many are wrong in all.
    pub wrong: usize,
}

impl Mismatch {
    /// In words, for memory at this GPU address.
    pub fn at_address(&self, address: u64) -> String {
        format!("{:#x}: {self}", address.wrapping_add(self.at as u64))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            expected,
            found,
            wrong,
        } = self;
        write!(f, "byte {at} is {found:#04x} and should be {expected:#04x}")?;
        match wrong {
            0 | 1 => Ok(()),
            _ => write!(f, "; {wrong} bytes are wrong"),
        }
    }
}

/// Compares every byte; none where all are right. Bytes that one of the two lacks are wrong.
pub fn compare(expected: &[u8], found: &[u8]) -> Option<Mismatch> {
    if expected == found {
        return None;
    }
    let pairs = expected.iter().zip(found).enumerate();
    let mut differ = pairs.filter(|(_, (expected, found))| expected != found);
    let lacking = expected.len().abs_diff(found.len());
    match differ.next() {
        Some((at, (expected, found))) => Some(Mismatch {
            at,
            expected: *expected,
            found: *found,
            wrong: 1 + differ.count() + lacking,
        }),
        None => {
            let at = expected.len().min(found.len());
            Some(Mismatch {
                at,
                expected: expected.get(at).copied().unwrap_or(0),
                found: found.get(at).copied().unwrap_or(0),
                wrong: lacking,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_part_of_the_whole() {
        let pattern = Pattern::new(7);
        let whole = pattern.bytes(0, 200);
        for from in [0, 1, 7, 8, 9, 63] {
            for length in [0, 1, 3, 8, 17, 100] {
                assert_eq!(
                    pattern.bytes(from, length),
                    whole[from..from + length],
                    "{from}, {length}"
                );
            }
        }
    }

    #[test]
    fn the_sequence_is_splitmix64s() {
        // The published test vector of SplitMix64 for seed 1234567; ours begins at seed · golden ratio.
        let published = Pattern(1_234_567);
        let bytes = published.bytes(0, 16);
        assert_eq!(&bytes[..8], &6_457_827_717_110_365_317_u64.to_le_bytes());
        assert_eq!(&bytes[8..], &3_203_168_211_198_807_973_u64.to_le_bytes());
    }

    #[test]
    fn neither_a_shift_nor_another_seed_passes() {
        let bytes = Pattern::new(1).bytes(0, 4096);
        for shift in [1, 4, 64, 1024] {
            assert!(compare(&bytes[shift..], &bytes[..4096 - shift]).is_some(), "{shift}");
        }
        let other = Pattern::new(2).bytes(0, 4096);
        let wrong = compare(&bytes, &other).expect("different").wrong;
        assert!(wrong > 4000, "{wrong}");
    }

    #[test]
    fn a_wrong_byte_is_named() {
        let mut found = vec![0x5a; 100];
        found[37] = 0;
        found[99] = 1;
        let mismatch = compare(&[0x5a; 100], &found).expect("wrong bytes");
        assert_eq!(
            mismatch.at_address(0x7f00_0000),
            "0x7f000025: byte 37 is 0x00 and should be 0x5a; 2 bytes are wrong"
        );
        assert_eq!(compare(&found, &found), None);
        let short = compare(&[1, 2, 3], &[1, 2]).expect("a byte lacks");
        assert_eq!((short.at, short.wrong), (2, 1));
    }
}
