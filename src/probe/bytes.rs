//! Byte-by-byte comparison.

use std::fmt;

/// Wrong bytes in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Offset of the first wrong byte.
    pub at: usize,
    pub expected: u8,
    pub found: u8,
    /// Number of wrong bytes.
    pub wrong: usize,
}

impl Mismatch {
    /// The message for memory at a GPU address.
    pub fn at_address(&self, address: u64) -> String {
        format!("{:#x}: {self}", address.wrapping_add(self.at as u64))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, expected, found, wrong } = self;
        write!(f, "byte {at} is {found:#04x} and should be {expected:#04x}")?;
        match wrong {
            0 | 1 => Ok(()),
            _ => write!(f, "; {wrong} bytes are wrong"),
        }
    }
}

/// Compares every byte; `None` if all are equal. A difference in length counts as wrong bytes.
pub fn compare(expected: &[u8], found: &[u8]) -> Option<Mismatch> {
    if expected == found {
        return None;
    }
    let pairs = expected.iter().zip(found).enumerate();
    let mut differ = pairs.filter(|(_, (expected, found))| expected != found);
    let missing = expected.len().abs_diff(found.len());
    match differ.next() {
        Some((at, (expected, found))) => Some(Mismatch {
            at,
            expected: *expected,
            found: *found,
            wrong: 1 + differ.count() + missing,
        }),
        None => {
            let at = expected.len().min(found.len());
            Some(Mismatch {
                at,
                expected: expected.get(at).copied().unwrap_or(0),
                found: found.get(at).copied().unwrap_or(0),
                wrong: missing,
            })
        }
    }
}

/// Bytes that all differ from the expected ones. A buffer holds them before a copy into it, so that a copy that does nothing is noticed.
pub fn inverted(expected: &[u8]) -> Vec<u8> {
    let mut bytes = expected.to_vec();
    let (words, rest) = bytes.as_chunks_mut();
    for word in words {
        *word = (!u64::from_ne_bytes(*word)).to_ne_bytes();
    }
    for byte in rest {
        *byte = !*byte;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_inverted_byte_differs() {
        let bytes: Vec<u8> = (0..=255).chain(0..5).collect();
        for length in [0, 1, 7, 8, 9, bytes.len()] {
            let inverted = inverted(&bytes[..length]);
            assert_eq!(inverted.len(), length);
            assert!(bytes.iter().zip(&inverted).all(|(a, b)| a ^ b == 0xff));
        }
    }

    #[test]
    fn locates_wrong_bytes() {
        let mut found = vec![0x5a; 100];
        found[37] = 0;
        found[99] = 1;
        let mismatch = compare(&[0x5a; 100], &found).expect("wrong bytes");
        assert_eq!(
            mismatch.at_address(0x7f00_0000),
            "0x7f000025: byte 37 is 0x00 and should be 0x5a; 2 bytes are wrong"
        );
        assert_eq!(compare(&found, &found), None);
        let short = compare(&[1, 2, 3], &[1, 2]).expect("a missing byte");
        assert_eq!((short.at, short.wrong), (2, 1));
    }
}
