//! Many nodes in one report: takes in the reports of nodes, finds those that are alike, the facts that a few do not share, the
//! figures and links that are worse than the others. Pure: files, processes and networks belong to `cmd` and `probe`.

mod actions;
mod changes;
mod compare;
mod document;
mod figures;
mod heat;
mod history;
pub mod isolation;
mod lacking;
mod merge;
mod names;
mod network;
mod node_facts;
mod reasons;
mod record;
pub mod schedule;
mod shared;
#[cfg(test)]
mod tests;
pub mod topology;
mod wrongs;

pub use crate::model::{fold, natural};
pub use actions::add_since;
pub use changes::{compare, rises, seconds};
pub use history::Timeline;
pub use merge::Fleet;
pub use network::Links;

use crate::model::{FleetNetwork, FleetReport};

/// The exit status of a report: 1 if a node or a part of the network failed, or a node is slow or has no report, 3 if something required is unknown, else 0.
pub fn exit_code(report: &FleetReport) -> u8 {
    let summary = &report.summary;
    let network = report.network.as_ref();
    let failures = network.map_or(0, FleetNetwork::failures);
    let is_empty = network.is_some_and(|network| network.pairs == 0);
    match (
        summary.failed + summary.slow + summary.absent + failures,
        summary.undetermined + usize::from(is_empty),
    ) {
        (1.., _) => 1,
        (0, 1..) => 3,
        (0, 0) => 0,
    }
}
