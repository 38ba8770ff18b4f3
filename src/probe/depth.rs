//! How much a probe does. What that means in sizes and times is each probe's own.

use serde::{Deserialize, Serialize};

/// How much to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// In less than 5 seconds for one GPU, everything included.
    Quick,
    /// In less than half a minute.
    Default,
    /// In minutes.
    Full,
}
