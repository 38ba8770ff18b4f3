//! The nodes of a fleet over time: the JSON contract `gdr.history/1`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the schema.
pub const HISTORY_SCHEMA: &str = "gdr.history/1";

/// The document `gdr.history/1`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The days with a report, in UTC, as in `2026-11-29`.
    pub days: Vec<String>,
    /// Number of nodes that were not ok on each day.
    pub not_ok: Vec<usize>,
    /// Number of reports of nodes.
    pub reports: usize,
    /// Nodes that were ok on each day with a report: a host list, as in `n[1-8,10]`.
    pub always_ok: String,
    /// How many these are.
    pub always_ok_count: usize,
    /// The other nodes, those that are not ok now first.
    pub nodes: Vec<NodeHistory>,
    /// Files that could not be read, and other notes.
    pub notes: Vec<String>,
}

/// A node that was not always ok.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeHistory {
    pub name: String,
    /// The worst state of each day: `.` ok, `?` undetermined, `s` slow, `X` failed, `-` without a report that was expected, and a space
    /// for a day without any word of it.
    pub line: String,
    /// Its last known state, as one of these characters.
    pub state: char,
    /// Since when it has this state (UTC, RFC 3339).
    pub since: String,
    /// How often it stopped being ok.
    pub failures: usize,
    /// How often it was ok again.
    pub recoveries: usize,
    /// It failed and recovered twice or more.
    pub flaps: bool,
    /// How often links of its NICs went down, as their counters say.
    pub link_flaps: u64,
    /// What was wrong, the most frequent first.
    pub problems: Vec<ProblemHistory>,
}

/// A problem of a node over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemHistory {
    pub check: String,
    pub device: String,
    /// Number of reports that have it.
    pub reports: usize,
    /// The first and the last of them (UTC, RFC 3339).
    pub first: String,
    pub last: String,
}
