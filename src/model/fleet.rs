//! A fleet: the reports of many nodes in one. The JSON contract `gdr.fleet/1`. Fields may be added; removing one makes `/2`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Column, Comparison, Form, NodeAction, Outcome, Record, size};

/// Name of the schema.
pub const FLEET_SCHEMA: &str = "gdr.fleet/1";

/// The document `gdr.fleet/1`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetReport {
    /// Number of nodes by state.
    pub summary: FleetSummary,
    /// A report comes from simulated devices.
    pub simulated: bool,
    /// The nodes that need an action, each once, failures first.
    #[serde(default)]
    pub actions: Vec<NodeAction>,
    /// Every node with a report.
    pub nodes: Vec<FleetNode>,
    /// Nodes without a report, and why.
    pub absent: Vec<AbsentNode>,
    /// Versions of gdr, the most frequent first; more than one is worth a look.
    pub versions: Vec<FleetValue>,
    /// Nodes that are alike, the largest group first.
    pub groups: Vec<NodeGroup>,
    /// Findings that failed, warned or left something required open, each with its nodes.
    pub findings: Vec<FleetFinding>,
    /// The topology of most nodes; absent without reports of topo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<FleetTopology>,
    /// Facts that most nodes agree on and some do not.
    pub facts: Vec<FleetFact>,
    /// Figures that are worse than those of the other nodes, the worst first.
    pub figures: Vec<FleetFigure>,
    /// What was measured between the nodes; absent if nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<FleetNetwork>,
    /// The worst links between devices of a node, or between NICs of two nodes, compared with others of their kind.
    pub links: Vec<FleetLink>,
    /// The links as a matrix; null without links.
    pub heat: Option<HeatMap>,
    /// What changed since an earlier report; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// What a later report can be compared with; absent if names are masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// Further notes: what was left out.
    pub notes: Vec<String>,
}

/// Number of nodes by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetSummary {
    /// All nodes.
    pub nodes: usize,
    /// Nothing failed.
    pub ok: usize,
    /// A check or a probe failed.
    pub failed: usize,
    /// Nothing failed, but figures are well below those of the other nodes.
    #[serde(default)]
    pub slow: usize,
    /// Nothing failed, but something required is unknown or a probe is incomplete.
    pub undetermined: usize,
    /// Without a report.
    pub absent: usize,
}

/// A node with a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetNode {
    pub name: String,
    pub state: FleetState,
    /// The first checks or tests that failed or are unknown, as sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What to do on it first: a command or a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
}

/// State of a node.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FleetState {
    /// Nothing failed.
    #[default]
    Ok,
    /// Something required is unknown, or a probe is incomplete.
    Undetermined,
    /// Figures are well below those of the other nodes.
    Slow,
    /// A check or a probe failed.
    Failed,
}

/// A node without a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AbsentNode {
    pub node: String,
    pub why: Absence,
    /// The reason, as a sentence.
    pub reason: String,
}

/// Why a node has no report.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Absence {
    /// It never arrived.
    Missing,
    /// It did not finish in time.
    TimedOut,
    /// It arrived and ended early.
    Ended,
    /// It has another version of gdr or of a schema.
    Version,
    /// Its report cannot be read.
    Invalid,
}

impl Absence {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::TimedOut => "hangs",
            Self::Ended => "ended",
            Self::Version => "version",
            Self::Invalid => "invalid",
        }
    }
}

/// A value, and the nodes that have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetValue {
    pub value: String,
    pub count: usize,
    /// A host list, as in `n[1-8,10]`.
    pub nodes: String,
}

/// Nodes without a difference between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeGroup {
    pub count: usize,
    /// A host list, as in `n[1-8,10]`.
    pub nodes: String,
    pub state: FleetState,
    /// Differences from the majority of all nodes; empty if there is none.
    pub differences: Vec<FleetDifference>,
    /// Number of differences that are not listed.
    pub more: usize,
}

/// A fact of a group that differs from the majority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetDifference {
    /// The fact: a check with its subject and source, or a fact of the host.
    pub fact: String,
    /// Its value in this group; null if the group has no such fact.
    pub value: Option<String>,
    /// The value of most nodes; null if most have no such fact.
    pub majority: Option<String>,
}

/// The topology that most nodes share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetTopology {
    pub devices: Vec<TopologyDevice>,
    /// The class of the path between each two devices, in the order of `devices`.
    pub matrix: Vec<TopologyRow>,
}

/// A device of most nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyDevice {
    pub name: String,
    /// Model, address, NUMA node and NVLinks.
    pub description: String,
}

/// The paths from one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TopologyRow {
    pub from: String,
    /// The class to each device; `X` for itself, null if most nodes have no such path.
    pub classes: Vec<Option<String>>,
}

/// A finding with its nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFinding {
    /// Id of the check, or name of a probe's result.
    pub id: String,
    /// fail, warn, unknown; of a probe wrong, impossible or slow.
    pub outcome: String,
    pub subject: String,
    pub message: String,
    pub count: usize,
    /// A host list, as in `n[1-8,10]`.
    pub nodes: String,
}

impl FleetFinding {
    pub const COLUMNS: [Column<Self>; 6] = [
        Column::new("check", |finding| finding.id.clone()),
        Column::new("result", |finding: &Self| finding.outcome.clone())
            .form(Form::State(Self::state)),
        Column::new("subject", |finding: &Self| finding.subject.clone()).merged(Self::named),
        Column::new("finding", |finding| finding.message.clone()),
        Column::new("nodes", |finding: &Self| finding.count.to_string()).form(Form::Number),
        Column::new("names", |finding: &Self| finding.nodes.clone()).form(Form::Hosts),
    ];

    /// The first devices of the same finding.
    fn named(subjects: &[String]) -> String {
        match subjects {
            [a, b, c, more @ ..] if !more.is_empty() => {
                format!("{a}, {b}, {c} and {} more", more.len())
            }
            few => few.join(", "),
        }
    }

    pub fn state(&self) -> Outcome {
        match self.outcome.as_str() {
            "fail" => Outcome::Fail,
            "warn" => Outcome::Warn,
            _ => Outcome::Unknown,
        }
    }

    /// The cells of a row as a sentence.
    pub fn sentence([id, _, subject, message, count, nodes]: &[String; 6]) -> String {
        let plural = if count == "1" { "" } else { "s" };
        format!("{id}, {subject}: {message} ({count} node{plural}: {nodes})")
    }
}

/// A fact that most nodes agree on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFact {
    pub fact: String,
    /// The value of most nodes; null if most have no such fact.
    pub majority: Option<String>,
    pub count: usize,
    /// Other values, with the nodes that have them.
    pub outliers: Vec<FleetValue>,
}

/// A figure of a node that is worse than those of the other nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFigure {
    pub node: String,
    /// The GPU, the pair or the port.
    pub subject: String,
    /// Name of the result, and its bytes.
    pub name: String,
    pub bytes: Option<u64>,
    pub unit: String,
    pub value: f64,
    /// Median of all nodes.
    pub median: f64,
    /// Number of nodes that have the figure.
    pub nodes: usize,
    /// How much worse it is, in percent of the median.
    pub loss: f64,
}

impl FleetFigure {
    pub const COLUMNS: [Column<Self>; 6] = [
        Column::new("node", |figure| figure.node.clone()),
        Column::new("subject", |figure| figure.subject.clone()),
        Column::new("test", |figure| {
            let bytes = figure.bytes.map_or(String::new(), |bytes| format!(", {}", size(bytes)));
            format!("{}{bytes}", figure.name)
        }),
        Column::new("here", |figure: &Self| format!("{:.2} {}", figure.value, figure.unit))
            .form(Form::Number),
        Column::new("median", |figure: &Self| format!("{:.2}", figure.median)).form(Form::Number),
        Column::new("worse by", |figure: &Self| format!("{:.0} %", figure.loss)).form(Form::Number),
    ];

    /// The cells of its row as a sentence.
    pub fn sentence(&self, [node, subject, test, here, median, loss]: &[String; 6]) -> String {
        let Self { nodes, unit, .. } = self;
        format!(
            "{node}, {subject}: {test}: {here}, the median of {nodes} nodes is {median} {unit}: {loss} worse"
        )
    }
}

/// Measurements between the NICs of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetNetwork {
    /// Number of rounds; in each, every node has one partner at most.
    pub rounds: usize,
    /// O(log N) rounds instead of all pairs.
    pub quick: bool,
    /// How long the rounds took.
    pub seconds: f64,
    /// Number of pairs of NICs that were measured, repetitions included.
    pub pairs: usize,
    /// How many of these failed.
    pub failed: usize,
    /// How many of the failed ones no part at fault explains.
    #[serde(default)]
    pub unexplained: usize,
    /// The parts at fault, the clearest first.
    pub faults: Vec<FleetFault>,
}

impl FleetNetwork {
    /// Number of faults, and of failures without one.
    pub fn failures(&self) -> usize {
        self.faults.len() + self.unexplained
    }
}

/// A part of the network that is at fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetFault {
    pub kind: FaultKind,
    /// Its name, as in `n3 mlx5_1`.
    pub subject: String,
    /// Its nodes: a host list, as in `n[1-8,10]`.
    pub nodes: String,
    /// dead, bandwidth, latency, loss: the clearest first.
    pub symptoms: Vec<String>,
    /// Its bandwidth, or its latency, as a multiple of the usual; null for a dead part and for losses alone.
    pub ratio: Option<f64>,
    /// Number of measurements that it takes part in.
    pub measurements: usize,
    /// Probability of this explanation among all, that nothing is at fault included; 0 to 1.
    pub confidence: f64,
    /// Parts with the same measurements, which do not tell them apart.
    pub same: Vec<String>,
    /// Why measurements failed; null if they did not.
    pub reason: Option<String>,
}

/// Kind of a part at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A NIC's cable or port, in the direction from the NIC.
    Sending,
    /// In the direction to the NIC.
    Receiving,
    /// A NIC, its cable or its port.
    Nic,
    Node,
    /// The NICs of one number on all nodes.
    Rail,
    /// A leaf switch.
    Leaf,
    /// What connects a leaf switch with the others.
    Uplinks,
}

impl FaultKind {
    /// As in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Receiving => "receiving",
            Self::Nic => "nic",
            Self::Node => "node",
            Self::Rail => "rail",
            Self::Leaf => "leaf",
            Self::Uplinks => "uplinks",
        }
    }
}

/// A link between two devices of a node, or between NICs of two nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetLink {
    pub node: String,
    pub from: String,
    pub to: String,
    /// Name of the result.
    pub name: String,
    /// Bandwidth, GB/s.
    pub value: f64,
    /// Median of links of this kind, GB/s.
    pub median: f64,
    /// `value` as a share of `median`.
    pub share: f64,
}

impl FleetLink {
    pub const COLUMNS: [Column<Self>; 6] = [
        Column::new("from", |link| format!("{}: {}", link.node, link.from)),
        Column::new("to", |link| link.to.clone()),
        Column::new("test", |link| link.name.clone()),
        Column::new("GB/s", |link: &Self| format!("{:.1}", link.value)).form(Form::Number),
        Column::new("median", |link: &Self| format!("{:.1}", link.median)).form(Form::Number),
        Column::new("share", |link: &Self| format!("{:.0} %", link.share * 100.0))
            .form(Form::Number),
    ];

    /// The cells of its row as a sentence.
    pub fn sentence([from, to, test, value, median, share]: &[String; 6]) -> String {
        format!("{from} to {to}: {value} of {median} GB/s, {share} ({test})")
    }
}

/// The links as a matrix: the worst share of each pair.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeatMap {
    /// Rows and columns: devices, or ranges of them if there are many.
    pub names: Vec<String>,
    /// `cells[from][to]`: bandwidth as a share of the median of its kind; null if it was not measured.
    pub cells: Vec<Vec<Option<f64>>>,
}
