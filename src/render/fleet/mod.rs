//! The report of a fleet in its formats, and the words that they share. JSON is the report itself.

mod table;

pub use table::table;

use super::text::{Tone, counted};
use crate::model::{FleetNetwork, FleetReport, FleetState, NodeGroup};

/// First line of every output with a simulated report.
pub(in crate::render) const SIMULATED: &str = "SIMULATED: a report comes from simulated devices.";

/// The result, and the number of nodes by state.
pub(in crate::render) fn headline(report: &FleetReport) -> (Tone, String) {
    let summary = &report.summary;
    let network = report.network.as_ref();
    let failures = network.map_or(0, FleetNetwork::failures);
    let failed = summary.failed + summary.absent + failures;
    let open =
        summary.undetermined + usize::from(network.is_some_and(|network| network.pairs == 0));
    let (tone, word) = match (failed, open) {
        (0, 0) => (Tone::Good, "ok"),
        (0, _) => (Tone::Fair, "undetermined"),
        _ => (Tone::Bad, "failed"),
    };
    let parts = [
        (summary.ok, "ok"),
        (summary.failed, "failed"),
        (summary.undetermined, "undetermined"),
        (summary.absent, "without a report"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, word)| format!("{count} {word}")).collect();
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
    (tone, format!("{word}: {nodes}: {}{slow}{network}", parts.join(", ")))
}

/// What a group of nodes has in common.
pub(in crate::render) fn group_words(group: &NodeGroup, is_first: bool) -> String {
    let state = match group.state {
        FleetState::Ok => "",
        FleetState::Failed => ", failed",
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
