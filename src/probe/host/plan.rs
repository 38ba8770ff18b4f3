//! Sizes and times of each depth.

use crate::probe::depth::Depth;
use crate::probe::sampling::Budget;

impl Depth {
    /// The sizes of copies between host and GPU, ascending: 4 B to 1 GiB.
    pub fn host_sizes(self) -> Vec<usize> {
        match self {
            Self::Quick => vec![4, 4 << 10, 1 << 20, 16 << 20],
            Self::Default => (1..=15).map(|exponent| 1 << (2 * exponent)).collect(),
            Self::Full => (2..=30).map(|exponent| 1 << exponent).collect(),
        }
    }

    pub fn host_point(self) -> Budget {
        match self {
            Self::Quick => Budget::new(5, 5, 0.02),
            Self::Default => Budget::new(40, 8, 0.01),
            Self::Full => Budget::new(400, 20, 0.002),
        }
    }

    /// The sizes to verify.
    pub fn host_verified(self) -> &'static [usize] {
        match self {
            Self::Quick => &[4 << 10, 1 << 20],
            Self::Default | Self::Full => &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20],
        }
    }

    /// Size of the message that is copied in chunks.
    pub fn message(self) -> usize {
        match self {
            Self::Quick => 4 << 20,
            Self::Default | Self::Full => 64 << 20,
        }
    }

    /// Chunk sizes of staged copies.
    pub fn chunks(self) -> &'static [usize] {
        match self {
            Self::Quick => &[64 << 10, 256 << 10, 1 << 20],
            Self::Default | Self::Full => {
                &[64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_range_from_4_bytes_to_1_gibibyte() {
        for depth in [Depth::Default, Depth::Full] {
            let sizes = depth.host_sizes();
            assert_eq!((sizes.first(), sizes.last()), (Some(&4), Some(&(1 << 30))));
            assert!(sizes.is_sorted());
        }
    }
}
