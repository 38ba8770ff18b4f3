//! A node that needs an action, and the columns in which people read it. A value with a column is a field and a line of
//! `COLUMNS` here; `fleet::actions` fills it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RequiredAction;

/// A node that needs an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeAction {
    pub node: String,
    pub problem: NodeProblem,
    /// What is wrong, by its root cause.
    pub words: String,
    /// Number of further faults.
    pub more: usize,
    /// Number of findings that these faults explain.
    pub explained: usize,
    /// The checks and results that found the faults.
    pub checks: Vec<String>,
    /// When it was seen first, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What to do, for people.
    pub text: String,
    /// What to do, for programs.
    pub action: RequiredAction,
}

/// Why a node needs an action; the most urgent first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NodeProblem {
    /// A check or a probe failed.
    Failed,
    /// It has no report.
    Absent,
    /// Figures are well below those of the other nodes.
    Slow,
    /// A check warns that warns on few nodes only.
    Warned,
    /// Something required is unknown that is known of most nodes.
    Undetermined,
}

impl NodeProblem {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Absent => "absent",
            Self::Slow => "slow",
            Self::Warned => "warned",
            Self::Undetermined => "undetermined",
        }
    }
}

/// A column of the table of actions, in a terminal and in a page.
pub struct ActionColumn {
    pub heading: &'static str,
    pub text: fn(&NodeAction) -> String,
    /// A terminal has no room for it.
    pub is_long: bool,
}

/// A column that a terminal shows, too.
const fn column(heading: &'static str, text: fn(&NodeAction) -> String) -> ActionColumn {
    ActionColumn { heading, text, is_long: false }
}

impl NodeAction {
    /// Headings of the columns whose cells have a form of their own.
    pub const STATE: &str = "state";
    pub const NODE: &str = "node";
    pub const DRAIN: &str = "drain";
    pub const SOURCE: &str = "source";

    /// One that is empty for all nodes is not shown. Nodes whose cells are equal but for their names share a row.
    pub const COLUMNS: [ActionColumn; 7] = [
        column(Self::STATE, |action| action.problem.word().to_owned()),
        column(Self::NODE, |action| action.node.clone()),
        column("what is wrong", Self::wrong),
        column("since", |action| action.since.clone().unwrap_or_default()),
        column("action", |action| action.text.clone()),
        column(Self::DRAIN, |action| if action.action.drain { "drain" } else { "" }.to_owned()),
        ActionColumn {
            is_long: true,
            ..column(Self::SOURCE, |action| action.action.source.clone())
        },
    ];

    /// What is wrong, with the number of further faults and of their consequences.
    fn wrong(&self) -> String {
        let more = if self.more > 0 { format!(" (+{})", self.more) } else { String::new() };
        let explained = match self.explained {
            0 => String::new(),
            1 => "; explains 1 finding".to_owned(),
            count => format!("; explains {count} findings"),
        };
        format!("{}{more}{explained}", self.words)
    }
}
