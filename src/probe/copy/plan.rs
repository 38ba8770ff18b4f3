//! Sizes and times of each depth.

use crate::probe::depth::Depth;
use crate::probe::sampling::Budget;

impl Depth {
    /// The sizes of a sweep, ascending: powers of two.
    pub fn sizes(self) -> Vec<usize> {
        let largest: usize = match self {
            Self::Quick => 16 << 20,
            Self::Default | Self::Full => 64 << 20,
        };
        (0..=largest.ilog2()).map(|exponent| 1 << exponent).collect()
    }

    /// Limits for one point of a sweep.
    pub fn point(self) -> Budget {
        match self {
            Self::Quick => Budget::new(5, 8, 0.02),
            Self::Default => Budget::new(24, 12, 0.01),
            Self::Full => Budget::new(600, 200, 0.001),
        }
    }

    /// Limits for the timing of the calls, for each size.
    pub fn calls(self) -> Budget {
        match self {
            Self::Quick => Budget::new(40, 5, 0.02),
            Self::Default => Budget::new(300, 20, 0.02),
            Self::Full => Budget::new(1000, 100, 0.02),
        }
    }

    /// The sizes for the timing of the calls.
    pub fn call_sizes(self) -> &'static [usize] {
        match self {
            Self::Quick => &[64 << 10],
            Self::Default => &[4 << 10, 64 << 10, 1 << 20, 16 << 20],
            Self::Full => &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30],
        }
    }

    /// Maximum number of round trips with a kernel; each is a sample.
    pub fn round_trips(self) -> u32 {
        match self {
            Self::Quick => 1_000,
            Self::Default => 10_000,
            Self::Full => 100_000,
        }
    }

    /// The sizes of cuMemAlloc to verify. Allocations of 512 B share a page with others.
    pub fn verified_sizes(self) -> &'static [usize] {
        match self {
            Self::Quick => &[512, 4 << 10, 64 << 10, 16 << 20],
            Self::Default => &[512, 4 << 10, 64 << 10, 64 << 20],
            Self::Full => &[512, 4 << 10, 64 << 10, 64 << 20, 6 << 30],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn sizes_range_from_1_byte_to_64_mebibytes() {
        for depth in [Depth::Default, Depth::Full] {
            let sizes = depth.sizes();
            assert_eq!((sizes.len(), sizes[0], sizes[26]), (27, 1, 67_108_864));
        }
        assert_eq!(Depth::Quick.sizes().last(), Some(&16_777_216));
    }

    #[test]
    fn quick_sweep_takes_less_than_a_second() {
        // Two directions, each mapped, pinned and pageable.
        let points = Depth::Quick.sizes().len() * 2 * 3;
        assert!(
            Depth::Quick.point().time * u32::try_from(points).expect("few")
                < Duration::from_secs(1)
        );
    }
}
