//! How much a probe measures. Each probe maps a depth to sizes and times in its `plan`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Shares;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// Less than 5 seconds for one GPU, start included.
    Quick,
    /// Less than half a minute for one GPU.
    Default,
    Full,
}

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

/// The time to spend on a measurement that is planned to take this long: a tenth in debug builds, which tests run and whose
/// figures mean nothing.
pub fn measuring_time(planned: Duration) -> Duration {
    if cfg!(debug_assertions) { planned / 10 } else { planned }
}

/// As [`measuring_time`], for a measurement that is planned as a number of samples or messages.
pub fn measuring_count(planned: u32) -> u32 {
    if cfg!(debug_assertions) { planned / 10 } else { planned }
}

/// The smallest size that every path is verified with.
pub const VERIFIED: usize = 4 << 10;

/// Largest default size with simulated GPUs: simulated memory is host memory, copied byte by byte.
pub const SIMULATED: usize = 64 << 10;
