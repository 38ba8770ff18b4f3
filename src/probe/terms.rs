//! Options that the task of every probe has.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::depth::{Depth, SIMULATED};
use crate::model::Shares;

/// Options that every task has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    pub depth: Depth,
    /// The sizes to measure; empty: those of the depth.
    pub sizes: Vec<usize>,
    pub shares: Shares,
    /// Added to the expected time of a step before it counts as hung.
    pub timeout: Duration,
}

impl Terms {
    /// The sizes to measure, ascending: `--size`, or those of the depth.
    pub fn sizes_or(&self, depth_sizes: Vec<usize>, is_simulated: bool) -> Vec<usize> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        let limit = if is_simulated { SIMULATED } else { usize::MAX };
        let within = |size: &usize| *size <= limit;
        depth_sizes.into_iter().filter(within).collect()
    }
}

#[cfg(test)]
impl Terms {
    /// The quick depth without limits.
    pub fn quick(sizes: &[usize], timeout: Duration) -> Self {
        Self { depth: Depth::Quick, sizes: sizes.to_vec(), shares: Shares::default(), timeout }
    }
}
