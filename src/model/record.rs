//! What is kept of the reports of a fleet: the JSON contract `gdr.record/1`. Equal parts of nodes are stored once.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counts, FleetState, Outcome};

/// Name of the schema.
pub const RECORD_SCHEMA: &str = "gdr.record/1";

/// The reports of a fleet at one time, reduced to what a comparison and a history need.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Sets of checks that ran; of each whether it could judge anything.
    pub checks: Vec<BTreeMap<String, bool>>,
    /// What is wrong or unknown somewhere.
    pub problems: Vec<Problem>,
    /// Sets of versions.
    pub versions: Vec<BTreeMap<String, String>>,
    /// Sets of devices, ports and links, with their properties.
    pub devices: Vec<BTreeMap<String, String>>,
    /// Figures of probes by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<FigureName>,
    pub nodes: Vec<NodeRecord>,
    /// Nodes that had to have a report and had none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// A failure, a warning or something required that is unknown, of one device.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Problem {
    pub check: String,
    /// One device, or the machine.
    pub device: String,
    pub outcome: Outcome,
    pub message: String,
}

/// A figure of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct FigureName {
    pub name: String,
    pub subject: String,
    pub bytes: Option<u64>,
    pub unit: String,
}

/// One node. Numbers are places in the record's lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRecord {
    pub name: String,
    /// When it was read (UTC, RFC 3339).
    pub taken: String,
    /// Version of the gdr that read it.
    pub gdr: String,
    pub state: FleetState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<RecordedProblem>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: Counts,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<(usize, f64)>,
}

/// A problem of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedProblem {
    pub problem: usize,
    /// A check whose failure explains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// When it was first seen (UTC, RFC 3339); absent: when the node was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// How a machine or a fleet differs from an earlier report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The earlier report: a file or a directory.
    pub source: String,
    /// When the earlier report was taken (UTC, RFC 3339).
    pub taken: Option<String>,
    /// Number of nodes that both sides have.
    pub nodes: usize,
    /// What changed, and what is still wrong, the most urgent first.
    pub differences: Vec<Difference>,
    /// What was not compared, and why.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Number of differences of these kinds.
    pub fn count(&self, kind: DifferenceKind) -> usize {
        self.differences.iter().filter(|difference| difference.kind == kind).count()
    }

    /// True if nothing changed.
    pub fn is_equal(&self) -> bool {
        self.differences.iter().all(|difference| difference.kind == DifferenceKind::Still)
    }
}

/// One difference, with all nodes that share it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    pub kind: DifferenceKind,
    /// The check, or what changed: `driver`, `GPU 0000:18:00.0`, `mlx5_0:1`.
    pub what: String,
    /// The devices; empty where `what` names it.
    pub devices: Vec<String>,
    /// The value before; null if it is new.
    pub before: Option<String>,
    /// The value now; null if it is gone.
    pub now: Option<String>,
    /// Since when a problem that is still there was seen (UTC, RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Checks that changed for the same reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub explains: Vec<String>,
    pub count: usize,
    /// A host list, as in `n[1-8,10]`.
    pub nodes: String,
}

/// Kind of a difference, the most urgent first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// A node without a report now, or without one before.
    Node,
    /// A problem that was not there.
    New,
    /// A problem that is another one now.
    Changed,
    /// Known before, unknown now.
    Unknown,
    /// A device, a port or a link is gone, new or different.
    Device,
    /// Errors rise, by rate.
    Counter,
    /// A figure of a probe is worse or better.
    Figure,
    /// A problem that is gone.
    Fixed,
    /// A version changed.
    Version,
    /// A problem that is still there.
    Still,
}

impl DifferenceKind {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::New => "new",
            Self::Changed => "changed",
            Self::Unknown => "unknown",
            Self::Device => "device",
            Self::Counter => "errors",
            Self::Figure => "figure",
            Self::Fixed => "fixed",
            Self::Version => "version",
            Self::Still => "still",
        }
    }
}
