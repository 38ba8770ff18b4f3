//! How much to do: which sizes, how long each.

use std::time::Duration;

use crate::probe::depth::{Depth, Terms};

impl Terms {
    /// The sizes to measure, ascending.
    pub fn rdma_sizes(&self) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        match self.depth {
            Depth::Quick => vec![8, 4 << 10, 64 << 10, 1 << 20],
            Depth::Default => (0..=12).map(|exponent| 1 << (2 * exponent)).collect(),
            Depth::Full => (0..=26).map(|exponent| 1 << exponent).collect(),
        }
    }
}

impl Depth {
    /// The sizes that are verified; none larger than the largest that is measured, if that is not smaller than all of them.
    pub fn rdma_verified(self) -> &'static [usize] {
        match self {
            Self::Quick => &[1, 4 << 10, 64 << 10, 1 << 20],
            Self::Default | Self::Full => &[1, 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20],
        }
    }

    /// What one figure may cost.
    pub fn rdma_point(self) -> Duration {
        Duration::from_millis(match self {
            Self::Quick => 60,
            Self::Default => 200,
            Self::Full => 1000,
        })
    }
}

/// So many requests are under way at once: perftest's 128 of small ones, and of large ones as many as keep a link busy.
pub fn depth_of(bytes: usize) -> u32 {
    ((4 << 20) / bytes.max(1)).clamp(8, 128) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_requests_are_many_at_once_and_large_ones_few() {
        assert_eq!([1, 32 << 10, 64 << 10, 1 << 30].map(depth_of), [128, 128, 64, 8]);
    }
}
