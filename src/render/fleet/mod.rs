//! The report of a fleet in its formats, and the words that they share. JSON is the report itself.

mod table;

pub use table::table;

use std::collections::HashMap;

use super::text::{Tone, counted};
use crate::model::{
    FleetNetwork, FleetReport, FleetState, NodeAction, NodeGroup, NodeProblem, fold,
};

/// First line of every output with a simulated report.
pub(in crate::render) const SIMULATED: &str = "SIMULATED: a report comes from simulated devices.";

/// The result, and the number of nodes by state.
pub(in crate::render) fn headline(report: &FleetReport) -> (Tone, String) {
    let summary = &report.summary;
    let network = report.network.as_ref();
    let failures = network.map_or(0, FleetNetwork::failures);
    let failed = summary.failed + summary.slow + summary.absent + failures;
    let open =
        summary.undetermined + usize::from(network.is_some_and(|network| network.pairs == 0));
    let (tone, word) = match (failed, open) {
        (0, 0) => (Tone::Good, "ok"),
        (0, _) => (Tone::Fair, "undetermined"),
        _ if failed == summary.slow => (Tone::Bad, "slow"),
        _ => (Tone::Bad, "failed"),
    };
    let parts = [
        (summary.ok, "ok"),
        (summary.failed, "failed"),
        (summary.slow, "slow"),
        (summary.undetermined, "undetermined"),
        (summary.absent, "without a report"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
    let warned =
        report.actions.iter().filter(|action| action.problem == NodeProblem::Warned).count();
    let warned = match warned {
        0 => String::new(),
        count => format!("; {} with warnings that most have not", counted(count, "node")),
    };
    let slow = match report.figures.len() {
        0 => String::new(),
        count => format!("; {} worse than elsewhere", counted(count, "figure")),
    };
    let network = match network {
        None => String::new(),
        Some(FleetNetwork { pairs: 0, .. }) => "; nothing was measured between nodes".to_owned(),
        Some(network) => format!(
            "; {} of the network at fault{}, of {} between NICs in {}",
            counted(network.faults.len(), "part"),
            match network.unexplained {
                0 => String::new(),
                count => format!(" and {} without one", counted(count, "failure")),
            },
            counted(network.pairs, "measurement"),
            counted(network.rounds, "round")
        ),
    };
    let nodes = counted(summary.nodes, "node");
    (tone, format!("{word}: {nodes}: {}{warned}{slow}{network}", parts.join(", ")))
}

/// What a group of nodes has in common.
pub(in crate::render) fn group_words(group: &NodeGroup, is_first: bool) -> String {
    let state = match group.state {
        FleetState::Ok => "",
        FleetState::Failed => ", failed",
        FleetState::Slow => ", slow",
        FleetState::Undetermined => ", undetermined",
    };
    let verb = match (group.differences.is_empty(), group.count, is_first) {
        (true, 1, _) => "is like most",
        (true, _, true) => "are alike",
        (true, _, false) => "are like most, and alike",
        (false, 1, _) => "differs",
        (false, ..) => "differ, and are alike",
    };
    format!("{} {verb}{state}", counted(group.count, "node"))
}

/// Nodes with the same fault and the same action: a host list, and the entry of the first.
pub(in crate::render) struct ActionRow<'r> {
    pub nodes: String,
    pub first: &'r NodeAction,
}

impl ActionRow<'_> {
    /// What is wrong, with the number of further faults and of their consequences.
    pub fn words(&self) -> String {
        let NodeAction { words, more, explained, .. } = self.first;
        let more = if *more > 0 { format!(" (+{more})") } else { String::new() };
        let explained = match explained {
            0 => String::new(),
            count => format!("; explains {}", counted(*count, "finding")),
        };
        format!("{words}{more}{explained}")
    }

    pub fn drain(&self) -> &'static str {
        if self.first.action.drain { "drain" } else { "" }
    }
}

/// A column of the table of actions, in a terminal and in a page.
pub(in crate::render) struct Column {
    pub heading: &'static str,
    pub text: fn(&ActionRow<'_>) -> String,
    /// The terminal has no room for it.
    pub is_long: bool,
}

const COLUMNS: [Column; 7] = [
    Column { heading: STATE, text: |row| row.first.problem.word().to_owned(), is_long: false },
    Column { heading: NODE, text: |row| row.nodes.clone(), is_long: false },
    Column { heading: "what is wrong", text: |row| row.words(), is_long: false },
    Column {
        heading: "since",
        text: |row| row.first.since.clone().unwrap_or_default(),
        is_long: false,
    },
    Column { heading: "action", text: |row| row.first.text.clone(), is_long: false },
    Column { heading: DRAIN, text: |row| row.drain().to_owned(), is_long: false },
    Column { heading: SOURCE, text: |row| row.first.action.source.clone(), is_long: true },
];

/// Headings of the columns whose cells have a form of their own.
pub(in crate::render) const STATE: &str = "state";
pub(in crate::render) const NODE: &str = "node";
pub(in crate::render) const DRAIN: &str = "drain";
pub(in crate::render) const SOURCE: &str = "source";

/// The columns in which a row has something.
pub(in crate::render) fn columns(rows: &[ActionRow<'_>]) -> Vec<&'static Column> {
    let columns = COLUMNS.iter();
    columns.filter(|column| rows.iter().any(|row| !(column.text)(row).is_empty())).collect()
}

/// The rows of the table of actions: nodes that need the same for the same reason share one.
pub(in crate::render) fn action_rows(report: &FleetReport) -> Vec<ActionRow<'_>> {
    let mut rows: Vec<Vec<&NodeAction>> = Vec::new();
    let mut known = HashMap::new();
    for action in &report.actions {
        let NodeAction { problem, words, text, more, explained, since, .. } = action;
        let row = (problem, words, text, more, explained, since);
        let at = *known.entry(row).or_insert(rows.len());
        match rows.get_mut(at) {
            Some(row) => row.push(action),
            None => rows.push(vec![action]),
        }
    }
    let rows = rows.into_iter().map(|nodes| ActionRow {
        nodes: fold(nodes.iter().map(|action| action.node.as_str())),
        first: nodes[0],
    });
    rows.collect()
}
