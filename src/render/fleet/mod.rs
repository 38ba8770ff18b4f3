//! The report of a fleet in its formats, and the words that they share. JSON is the report itself.

mod table;

pub use table::table;

use std::collections::HashMap;

use super::text::{Tone, counted};
use crate::model::{
    ActionColumn, FleetFinding, FleetNetwork, FleetReport, FleetState, NodeAction, NodeGroup,
    NodeProblem, fold,
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

/// Nodes with the same fault and the same action.
pub(in crate::render) struct ActionRow {
    pub problem: NodeProblem,
    /// One of each column; the names of the nodes as a host list.
    pub cells: Vec<String>,
}

/// The table of actions: the columns in which a row has something, and the rows.
pub(in crate::render) struct ActionTable {
    pub columns: Vec<&'static ActionColumn>,
    pub rows: Vec<ActionRow>,
}

/// Nodes that need the same for the same reason share a row.
pub(in crate::render) fn action_table(report: &FleetReport) -> ActionTable {
    let is_node = |column: &&ActionColumn| column.heading == NodeAction::NODE;
    let mut columns: Vec<&ActionColumn> = NodeAction::COLUMNS.iter().collect();
    let is_used = |column: &ActionColumn| {
        report.actions.iter().any(|action| !(column.text)(action).is_empty())
    };
    columns.retain(|column| is_used(column));
    let mut rows: Vec<(ActionRow, Vec<&str>)> = Vec::new();
    let mut known = HashMap::new();
    for action in &report.actions {
        let cell = |column: &&ActionColumn| {
            if is_node(column) { String::new() } else { (column.text)(action) }
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        let at = *known.entry(cells.clone()).or_insert(rows.len());
        match rows.get_mut(at) {
            Some((_, nodes)) => nodes.push(&action.node),
            None => rows.push((ActionRow { problem: action.problem, cells }, vec![&action.node])),
        }
    }
    let at = columns.iter().position(is_node);
    let named = rows.into_iter().map(|(mut row, nodes)| {
        if let Some(cell) = at.and_then(|at| row.cells.get_mut(at)) {
            *cell = fold(nodes.iter().copied());
        }
        row
    });
    ActionTable { rows: named.collect(), columns }
}

/// The same finding on several devices of the same nodes.
pub(in crate::render) struct FindingRow<'r> {
    pub first: &'r FleetFinding,
    subjects: Vec<&'r str>,
}

impl FindingRow<'_> {
    /// Most subjects that are named.
    const MAX: usize = 3;

    pub fn subjects(&self) -> String {
        let named = self.subjects.iter().take(Self::MAX).copied().collect::<Vec<_>>().join(", ");
        match self.subjects.len().saturating_sub(Self::MAX) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

/// One row for the devices of which the same is said.
pub(in crate::render) fn finding_rows(report: &FleetReport) -> Vec<FindingRow<'_>> {
    let mut rows: Vec<FindingRow<'_>> = Vec::new();
    let mut known = HashMap::new();
    for finding in &report.findings {
        let FleetFinding { id, outcome, message, nodes, .. } = finding;
        let at = *known.entry((id, outcome, message, nodes)).or_insert(rows.len());
        match rows.get_mut(at) {
            Some(row) => row.subjects.push(&finding.subject),
            None => rows.push(FindingRow { first: finding, subjects: vec![&finding.subject] }),
        }
    }
    rows
}
