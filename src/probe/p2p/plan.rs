//! How much to do: which sizes, how long each.

use std::time::Duration;

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

    /// What one figure may cost.
    pub fn p2p_point(self) -> Budget {
        let (milliseconds, least, share) = match self {
            Self::Quick => (5, 4, 0.02),
            Self::Default => (20, 8, 0.01),
            Self::Full => (300, 20, 0.002),
        };
        Budget {
            time: Duration::from_millis(milliseconds),
            least,
            share,
        }
    }

    /// The sizes that are verified.
    pub fn p2p_verified(self) -> &'static [usize] {
        match self {
            Self::Quick => &[4 << 10, 1 << 20, 64 << 20],
            Self::Default | Self::Full => &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20],
        }
    }

    /// Whether a way beside the first is measured at every size, not at the largest alone.
    pub fn every_size(self) -> bool {
        self != Self::Quick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_to_where_a_link_is_at_its_best() {
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
