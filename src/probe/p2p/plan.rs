//! Sizes and times of each depth.

use super::integrity::Transfer;
use crate::probe::depth::Depth;
use crate::probe::sampling::Budget;

impl Depth {
    /// The sizes of copies between GPUs, ascending.
    pub fn p2p_sizes(self) -> Vec<usize> {
        let least = match self {
            Self::Quick => return vec![16, 4 << 10, 1 << 20, 256 << 20],
            Self::Default => 16,
            Self::Full => 4,
        };
        let sizes = std::iter::successors(Some(least), |size| Some(size * 4));
        sizes
            .take_while(|size| *size <= 256 << 20)
            .chain((self == Self::Full).then_some(1 << 30))
            .collect()
    }

    pub fn p2p_point(self) -> Budget {
        match self {
            Self::Quick => Budget::new(5, 4, 0.02),
            Self::Default => Budget::new(20, 8, 0.01),
            Self::Full => Budget::new(300, 20, 0.002),
        }
    }

    /// The sizes to verify. What a kernel moved goes to the host to be compared, which takes longest.
    pub fn p2p_verified(self, transfer: Transfer) -> &'static [usize] {
        match self {
            Self::Quick if transfer.is_kernel() => &[4 << 10, 1 << 20, 16 << 20],
            Self::Quick => &[4 << 10, 1 << 20, 64 << 20],
            Self::Default | Self::Full => &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20],
        }
    }

    /// True to measure each path at every size; false to measure only the first one so, and the others at the largest size.
    pub fn every_size(self) -> bool {
        self != Self::Quick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_to_256_mebibytes() {
        assert_eq!(Depth::Default.p2p_sizes().first(), Some(&16));
        for depth in [Depth::Quick, Depth::Default] {
            assert_eq!(depth.p2p_sizes().last(), Some(&(256 << 20)));
        }
        let full = Depth::Full.p2p_sizes();
        assert!(
            full.is_sorted() && full.first() == Some(&4) && full.last() == Some(&(1 << 30)),
            "{full:?}"
        );
    }
}
