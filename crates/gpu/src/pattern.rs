//! A pattern that tells every 32-bit word of a buffer from its neighbours, so that a byte in the wrong place shows.

/// One of 2⁶⁴ patterns, which the CPU and the GPU can both write and check.
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
    /// Which.
    pub seed: u64,
}

/// What the comparison of a buffer with a pattern found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatches {
    /// How many 32-bit words differ.
    pub words: u64,
    /// The first of them, counted in words from the start of the range compared; `None` if all are equal.
    pub first: Option<u64>,
}

impl Pattern {
    /// The pattern of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Word `index`: one xorshift step (13, 7, 17) of a multiple of the seed xor a multiple of 2⁶⁴/φ, its upper half.
    #[must_use]
    pub const fn word(self, index: u64) -> u32 {
        let mut x = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.key();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 32) as u32
    }

    /// The seed spread over 64 bits: the step alone does not carry low bits into the upper half, and neighbouring seeds would
    /// give one pattern.
    pub(crate) const fn key(self) -> u64 {
        self.seed.wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// Fills `bytes` with the pattern from word `first` on, little-endian; a last partial word is cut.
    pub fn fill(self, bytes: &mut [u8], first: u64) {
        for (index, chunk) in (first..).zip(bytes.chunks_mut(4)) {
            chunk.copy_from_slice(&self.word(index).to_le_bytes()[..chunk.len()]);
        }
    }

    /// The first byte of `bytes` that is not the pattern's from word `first` on.
    #[must_use]
    pub fn first_difference(self, bytes: &[u8], first: u64) -> Option<usize> {
        let words = (first..).zip(bytes.chunks(4)).enumerate();
        for (position, (index, chunk)) in words {
            let expected = self.word(index).to_le_bytes();
            if let Some(byte) = chunk
                .iter()
                .zip(expected)
                .position(|(&seen, byte)| seen != byte)
            {
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
    fn the_words_are_those_worked_out_by_hand() {
        // Computed with Python's integers from the definition in `word`'s documentation.
        assert_eq!(Pattern::new(0).word(0), 0xdc1b_77ae);
        assert_eq!(Pattern::new(0x1234_5678_9abc_def0).word(1000), 0x3faf_5197);
    }

    #[test]
    fn a_difference_is_found_at_its_byte() {
        let mut bytes = [0; 19];
        Pattern::new(7).fill(&mut bytes, 3);
        assert_eq!(Pattern::new(7).first_difference(&bytes, 3), None);
        bytes[18] ^= 1;
        assert_eq!(Pattern::new(7).first_difference(&bytes, 3), Some(18));
        bytes[5] ^= 0x80;
        assert_eq!(Pattern::new(7).first_difference(&bytes, 3), Some(5));
    }
}
