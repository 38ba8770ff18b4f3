//! Differences between two machines, between two snapshots of one machine, or between the figures of two probes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the schema.
pub const DIFF_SCHEMA: &str = "gdr.diff/1";

/// The document `gdr.diff/1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffReport {
    /// The first machine.
    pub a: Side,
    /// The second machine.
    pub b: Side,
    /// Differences, grouped by area.
    pub changes: Vec<Change>,
    /// Number of differences that are not listed: facts that differ between any two machines or moments.
    pub left_out: usize,
}

/// One side of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The file, the directory, or `live`.
    pub source: String,
    pub host: Option<String>,
    /// Time of recording, UTC.
    pub taken: Option<String>,
}

/// All differences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// Grouped by area.
    pub changes: Vec<Change>,
}

/// One fact that differs, or one item that only one side has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Subject, as in `PCI 0000:17:00.0`, `module nvidia_peermem`, `process`; of a figure the GPU, pair or port.
    pub area: String,
    /// Name of the fact, as in `ACS control`; empty if the item itself was added or removed.
    pub fact: String,
    /// Value on the first side; null if it has no such item.
    pub a: Option<String>,
    /// Value on the second side; null if it has no such item.
    pub b: Option<String>,
    /// Kind of the difference.
    pub kind: ChangeKind,
    /// The fact identifies a machine: a serial number, a name, an address that firmware assigns.
    pub identity: bool,
    /// The fact changes over time: memory in use, a power state, error counts.
    pub volatile: bool,
    /// Of a figure of a probe: how much it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<FigureChange>,
}

/// How much a figure of a probe changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureChange {
    /// Change in percent of the first figure; null if the second could not be measured.
    pub percent: Option<f64>,
    /// Percent up to which noise and tolerance explain a change.
    pub noise: f64,
    /// It is worse, and noise does not explain that.
    pub regression: bool,
}

/// Kind of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Only the second side has it.
    Added,
    /// Only the first side has it.
    Removed,
    /// Both sides have it, with different values.
    Changed,
    /// Unknown on the first side, known on the second.
    Learned,
    /// Known on the first side, unknown on the second.
    Lost,
}

impl Change {
    /// True if the difference can affect how the machines work.
    pub fn matters(&self) -> bool {
        !self.identity && !self.volatile
    }
}

impl Diff {
    /// Builds the report with the differences that matter, or all of them.
    pub fn report(self, a: Side, b: Side, all: bool) -> DiffReport {
        let total = self.changes.len();
        let changes: Vec<Change> =
            self.changes.into_iter().filter(|change| all || change.matters()).collect();
        DiffReport { a, b, left_out: total - changes.len(), changes }
    }
}

impl DiffReport {
    /// True if the report lists no difference.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}
