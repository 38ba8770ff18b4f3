//! Test pattern that distinguishes neighbouring 32-bit words, to detect misplaced bytes.

/// One of 2⁶⁴ patterns that CPU and GPU can write and check.
///
/// ```
/// use gpu::{Allocation, Gpu, Pattern};
///
/// let gpu = Gpu::sim();
/// let (stream, memory) = (gpu.stream()?, gpu.allocate(Allocation::Malloc, 4096)?);
/// let mut bytes = [0; 4096];
/// Pattern::new(1).fill(&mut bytes, 0);
/// bytes[100] ^= 1;
/// stream.write(&memory, 0, &bytes)?;
/// let found = stream.check_pattern(&memory, 0, 4096, Pattern::new(1), 0)?;
/// assert_eq!((found.words, found.first), (1, Some(25)));
/// # Ok::<(), gpu::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Pattern seed.
    pub seed: u64,
}

/// Result of comparing a buffer with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatches {
    /// Number of 32-bit words that differ.
    pub words: u64,
    /// First mismatch, in words from the start of the range; `None` if all match.
    pub first: Option<u64>,
}

impl Pattern {
    /// Pattern with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Word `index`: upper half of one xorshift step (13, 7, 17) of (seed multiple xor index
    /// multiple of 2⁶⁴/φ).
    #[must_use]
    pub const fn word(self, index: u64) -> u32 {
        let mut x = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.key();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u32
    }

    /// Spreads the seed over 64 bits: the xorshift alone would not carry low bits to the upper
    /// half, so adjacent seeds would give the same pattern.
    pub(crate) const fn key(self) -> u64 {
        self.seed.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// Fills `bytes` from pattern word `first`, little-endian; truncates a last partial word.
    pub fn fill(self, bytes: &mut [u8], first: u64) {
        // Whole words by themselves: with the partial one among them, the loop takes three times as long.
        let (words, rest) = bytes.as_chunks_mut();
        let end = first + words.len() as u64;
        for (index, word) in (first..).zip(words) {
            *word = self.word(index).to_le_bytes();
        }
        rest.copy_from_slice(&self.word(end).to_le_bytes()[..rest.len()]);
    }

    /// True if `bytes` are the pattern from word `first` on. Reads all of them: much faster than [`first_difference`](Self::first_difference).
    #[must_use]
    pub fn matches(self, bytes: &[u8], first: u64) -> bool {
        let (words, rest) = bytes.as_chunks::<4>();
        let wrong = (first..)
            .zip(words)
            .fold(0, |wrong, (index, word)| wrong | (self.word(index) ^ u32::from_le_bytes(*word)));
        wrong == 0 && self.first_difference(rest, first + words.len() as u64).is_none()
    }

    /// Index of the first byte that differs from the pattern starting at word `first`.
    #[must_use]
    pub fn first_difference(self, bytes: &[u8], first: u64) -> Option<usize> {
        let words = (first..).zip(bytes.chunks(4)).enumerate();
        for (position, (index, chunk)) in words {
            let expected = self.word(index).to_le_bytes();
            if let Some(byte) = chunk.iter().zip(expected).position(|(&seen, byte)| seen != byte) {
                return Some(position * 4 + byte);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_hand_computed_values() {
        // Computed with Python integers from the definition in `word`'s documentation.
        assert_eq!(Pattern::new(0).word(0), 0xdc1b_77ae);
        assert_eq!(Pattern::new(0x1234_5678_9abc_def0).word(1000), 0x3faf_5197);
    }

    #[test]
    fn first_difference() {
        let mut bytes = [0; 19];
        Pattern::new(7).fill(&mut bytes, 3);
        assert_eq!(Pattern::new(7).first_difference(&bytes, 3), None);
        assert!(Pattern::new(7).matches(&bytes, 3) && !Pattern::new(7).matches(&bytes, 4));
        bytes[18] ^= 1;
        assert_eq!(Pattern::new(7).first_difference(&bytes, 3), Some(18));
        assert!(!Pattern::new(7).matches(&bytes, 3), "an incomplete word");
        assert!(Pattern::new(7).matches(&bytes[..18], 3));
        bytes[5] ^= 0x80;
        assert!(!Pattern::new(7).matches(&bytes[..16], 3));
        assert_eq!(Pattern::new(7).first_difference(&bytes, 3), Some(5));
    }
}
