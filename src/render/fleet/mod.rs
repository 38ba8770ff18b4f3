//! The report of a fleet in its formats, and the words that they share. JSON is the report itself.

mod table;

pub use table::table;

use std::collections::HashMap;

use super::text::{Tone, counted};
use crate::model::{
    Column, FleetNetwork, FleetReport, FleetState, NodeGroup, NodeProblem, Outcome,
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

/// A row of a table: the first of those that it stands for, and their cells.
pub(in crate::render) struct Row<'r, R, const N: usize> {
    pub first: &'r R,
    pub cells: [String; N],
}

/// The rows of a table. Those that differ in nothing but the column that merges are one row.
pub(in crate::render) fn rows<'r, R, const N: usize>(
    all: &'r [R],
    columns: &[Column<R>; N],
) -> Vec<Row<'r, R, N>> {
    let cells = |first| columns.each_ref().map(|column| (column.text)(first));
    let merging = columns.iter().enumerate().find_map(|(at, column)| Some((at, column.merged?)));
    let Some((at, merged)) = merging else {
        return all.iter().map(|first| Row { first, cells: cells(first) }).collect();
    };
    let mut rows: Vec<(Row<'r, R, N>, Vec<String>)> = Vec::new();
    let mut known = HashMap::new();
    for first in all {
        let mut cells = cells(first);
        let own = std::mem::take(&mut cells[at]);
        let number = *known.entry(cells.clone()).or_insert(rows.len());
        match rows.get_mut(number) {
            Some((_, all)) => all.push(own),
            None => rows.push((Row { first, cells }, vec![own])),
        }
    }
    let named = rows.into_iter().map(|(mut row, all)| {
        row.cells[at] = merged(&all);
        row
    });
    named.collect()
}

/// The columns in which a row has something.
pub(in crate::render) fn used<R, const N: usize>(rows: &[Row<'_, R, N>]) -> Vec<usize> {
    (0..N).filter(|at| rows.iter().any(|row| !row.cells[*at].is_empty())).collect()
}

/// Of a fault.
pub(in crate::render) fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Fail => Tone::Bad,
        Outcome::Warn => Tone::Fair,
        _ => Tone::Dim,
    }
}
