//! What differs between two machines, or between two times of one, by fact.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The schema of a comparison.
pub const DIFF_SCHEMA: &str = "gdr.diff/1";

/// The document `gdr.diff/1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffReport {
    /// The first machine.
    pub a: Side,
    /// The second machine.
    pub b: Side,
    /// What differs, grouped by area.
    pub changes: Vec<Change>,
    /// How many differences are not among the changes: facts by which any two machines, or two moments, differ.
    pub left_out: usize,
}

/// One of the two machines.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The file, the directory, or `live`.
    pub source: String,
    /// Host name.
    pub host: Option<String>,
    /// When it was recorded, in UTC.
    pub taken: Option<String>,
}

/// Everything that differs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// Grouped by area.
    pub changes: Vec<Change>,
}

/// One fact that differs, or one thing that only one machine has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// What it is about, as in `PCI 0000:17:00.0`, `module nvidia_peermem`, `process`.
    pub area: String,
    /// Which of its facts, in words, as in `ACS control`; empty where the thing itself came or went.
    pub fact: String,
    /// What it is in the first; none where the first has no such thing.
    pub a: Option<String>,
    /// What it is in the second; none where the second has no such thing.
    pub b: Option<String>,
    /// What became of it from the first to the second.
    pub kind: ChangeKind,
    /// Any two machines differ in it: a serial number, a name, an address that firmware hands out.
    pub identity: bool,
    /// Two moments of one machine differ in it: memory in use, a power state, error counts.
    pub volatile: bool,
}

/// What became of a fact from the first to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Only the second has it.
    Added,
    /// Only the first has it.
    Removed,
    /// Both have it, and it differs.
    Changed,
    /// Unknown in the first, known in the second.
    Learned,
    /// Known in the first, unknown in the second.
    Lost,
}

impl Change {
    /// Whether it says something of how the machines work.
    pub fn matters(&self) -> bool {
        !self.identity && !self.volatile
    }
}

impl Diff {
    /// The report: what matters, or everything.
    pub fn report(self, a: Side, b: Side, all: bool) -> DiffReport {
        let total = self.changes.len();
        let changes: Vec<Change> = self
            .changes
            .into_iter()
            .filter(|change| all || change.matters())
            .collect();
        DiffReport {
            a,
            b,
            left_out: total - changes.len(),
            changes,
        }
    }
}

impl DiffReport {
    /// Whether nothing that it shows differs.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}
