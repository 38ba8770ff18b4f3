//! What libibverbs answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a reading of libibverbs ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerbsOutcome {
    /// It answered.
    Read(Box<Verbs>),
    /// The library is not on this machine.
    Absent {
        /// What the loader said.
        reason: String,
    },
    /// The library is there and refused.
    Failed {
        /// errno, where it gave one.
        code: Option<i32>,
        /// What it means.
        reason: String,
    },
}

/// One reading of libibverbs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verbs {
    /// The names of the devices that have a provider.
    #[serde(default)]
    pub devices: Vec<String>,
}
