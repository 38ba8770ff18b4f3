//! How much a probe measures. Each probe maps a depth to sizes and times in its `plan`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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
