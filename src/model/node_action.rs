//! A node that needs an action, and the columns in which people read it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Column, Form, Outcome, RequiredAction, fold};

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

impl NodeAction {
    /// What is wrong and what to do, of a node of which nothing more is known.
    pub fn new(
        node: &str,
        problem: NodeProblem,
        (words, action): (String, RequiredAction),
    ) -> Self {
        Self {
            node: node.to_owned(),
            problem,
            words,
            more: 0,
            explained: 0,
            checks: Vec::new(),
            since: None,
            text: action.words(None),
            action,
        }
    }
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

    fn outcome(self) -> Outcome {
        match self {
            Self::Failed | Self::Absent => Outcome::Fail,
            Self::Slow | Self::Warned => Outcome::Warn,
            Self::Undetermined => Outcome::Unknown,
        }
    }
}

impl NodeAction {
    /// One that is empty for all nodes is not shown.
    pub const COLUMNS: [Column<Self>; 7] = [
        Column::new("state", |action: &Self| action.problem.word().to_owned())
            .form(Form::State(|action| action.problem.outcome())),
        Column::new("node", |action: &Self| action.node.clone())
            .form(Form::Hosts)
            .merged(|nodes| fold(nodes.iter().map(String::as_str))),
        Column::new("what is wrong", Self::wrong),
        Column::new("since", |action| action.since.clone().unwrap_or_default()),
        Column::new("action", |action| action.text.clone()),
        Column::new("drain", |action: &Self| {
            if action.action.drain { "drain" } else { "" }.to_owned()
        })
        .form(Form::Flag),
        Column {
            is_long: true,
            ..Column::new("source", |action: &Self| action.action.source.clone())
                .form(Form::Address)
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
