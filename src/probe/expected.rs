//! What is expected of a machine that is not here: nothing is touched, and nothing is measured.

use super::supervise::{Machine, ProbeError, Scope, blank, chosen};
use super::verdict::Subject;
use crate::model::{ProbeReport, ProbeResult};

/// The report of a probe of a recorded machine, with its GPUs, and no result yet.
pub fn recorded(probe: &str, scope: &Scope, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let listed = machine.listed();
    let mut report = blank(probe, scope, machine);
    let gpus = chosen(scope, machine, &listed)?;
    report.gpus = gpus
        .iter()
        .map(|gpu| gpu.target().probed(&gpu.listed.name))
        .collect();
    report.notes.push(
        "Nothing was measured: this machine is recorded. The figures are what its links carry at their best."
            .to_owned(),
    );
    if machine.gpus.is_empty() {
        report
            .notes
            .push("No GPU is known of this machine.".to_owned());
    }
    Ok(report)
}

/// What is said where a record does not tell what the link carries.
pub fn unknown_link(about: &Subject, name: &str, bytes: usize) -> ProbeResult {
    let reason = "what its link carries is not known: the CPU reaches it otherwise, or the record does not hold it";
    about.not_measured(name, bytes, reason.to_owned())
}
