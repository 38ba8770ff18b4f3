//! Many nodes in one report: takes in the reports of nodes, finds those that are alike, the facts that a few do not share, the
//! figures and links that are worse than the others. Pure: files, processes and networks belong to `cmd` and `probe`.

mod compare;
mod document;
mod figures;
pub mod isolation;
mod merge;
mod names;
pub mod schedule;
#[cfg(test)]
mod tests;

pub use merge::Fleet;
pub use names::{fold, natural};

/// The exit status of a report: 1 if a node failed or has no report, 3 if something required is unknown, else 0.
pub fn exit_code(report: &crate::model::FleetReport) -> u8 {
    let summary = &report.summary;
    match (summary.failed + summary.absent, summary.undetermined) {
        (1.., _) => 1,
        (0, 1..) => 3,
        (0, 0) => 0,
    }
}
