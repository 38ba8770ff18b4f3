//! How much to do: which sizes, how long each, which allocations.

use std::time::Duration;

use crate::probe::depth::Depth;
use crate::probe::sampling::Budget;

/// The largest size of a sweep of its own accord.
const LARGEST: usize = 64 << 20;

impl Depth {
    /// The sizes of a sweep, ascending: powers of two.
    pub fn sizes(self) -> Vec<usize> {
        (0..=LARGEST.ilog2())
            .map(|exponent| 1 << exponent)
            .collect()
    }

    /// What one point of a sweep may cost.
    pub fn point(self) -> Budget {
        let (milliseconds, least, share) = match self {
            Self::Quick => (10, 10, 0.02),
            Self::Default => (150, 50, 0.005),
            Self::Full => (600, 200, 0.001),
        };
        Budget {
            time: Duration::from_millis(milliseconds),
            least,
            share,
        }
    }

    /// What the costs of the calls may cost, for each size.
    pub fn calls(self) -> Budget {
        let (milliseconds, least) = match self {
            Self::Quick => (40, 5),
            Self::Default => (300, 20),
            Self::Full => (1000, 100),
        };
        Budget {
            time: Duration::from_millis(milliseconds),
            least,
            share: 0.02,
        }
    }

    /// The sizes whose pinning and mapping is timed.
    pub fn call_sizes(self) -> &'static [usize] {
        match self {
            Self::Quick => &[64 << 10],
            Self::Default => &[4 << 10, 64 << 10, 1 << 20, 16 << 20],
            Self::Full => &[
                4 << 10,
                64 << 10,
                1 << 20,
                16 << 20,
                64 << 20,
                256 << 20,
                1 << 30,
            ],
        }
    }

    /// Round trips with a kernel: each is a sample.
    pub fn round_trips(self) -> u32 {
        match self {
            Self::Quick => 1_000,
            Self::Default => 10_000,
            Self::Full => 100_000,
        }
    }

    /// The sizes that are verified, of plain allocations. 512 B share a page with others.
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
    use super::*;

    #[test]
    fn sweeps_go_from_a_byte_to_64_mebibytes() {
        for depth in [Depth::Quick, Depth::Default, Depth::Full] {
            let sizes = depth.sizes();
            assert_eq!((sizes.len(), sizes[0], sizes[26]), (27, 1, 67_108_864));
        }
    }

    #[test]
    fn a_quick_sweep_is_budgeted_below_two_seconds() {
        // Two directions, each mapped, pinned and pageable.
        let points = Depth::Quick.sizes().len() * 2 * 3;
        assert!(
            Depth::Quick.point().time * u32::try_from(points).expect("few")
                < Duration::from_secs(2)
        );
    }
}
