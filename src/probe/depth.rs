//! How much a probe does. What that means in sizes and times is each probe's own.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Shares;

/// How much to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// In less than 5 seconds for one GPU, everything included.
    Quick,
    /// In less than half a minute.
    Default,
    Full,
}

/// What every task is done by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// How much to do.
    pub depth: Depth,
    /// The sizes to measure; empty for the depth's own.
    pub sizes: Vec<usize>,
    pub shares: Shares,
    /// How long a step may take beyond its own time.
    pub timeout: Duration,
}

/// The least that every way is verified with.
pub const VERIFIED: usize = 4 << 10;

/// Simulated memory is this machine's own, and its copies are byte by byte: no more than so many bytes, unless asked for.
pub const SIMULATED: usize = 64 << 10;
