//! A probe as its parent sees it: what it measures here, and what it expects of a machine that is not here.

use super::children::{Children, Watcher};
use super::machine::Machine;
use super::scope::{ProbeError, Scope, chosen};
use super::task::Task;
use super::verdict::{Promise, Subject};
use super::watch::Interrupts;
use crate::model::{GIGABYTES_PER_SECOND, ProbeReport, ProbeResult};

/// A probe with what was asked of it. The figures of its report are drawn by `render`, by the probe's name.
pub trait Probe {
    /// As in `gdr probe NAME`.
    const NAME: &'static str;
    /// What its children do.
    type Task: Task;

    /// What every probe is asked.
    fn scope(&self) -> &Scope;

    /// Has children run tasks until all is measured, or until there is no use in going on, which the report says.
    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError>;

    /// Adds what is worked out of all results.
    fn finish(&self, _: &mut ProbeReport) {}

    /// Adds to the report of a recorded machine what its figures would be held against.
    fn expect(&self, machine: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError>;
}

/// Runs a probe. An interruption and a hang end it early, with a note in the report.
pub fn measure<P: Probe>(
    probe: &P,
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn Watcher,
) -> Result<ProbeReport, ProbeError> {
    let mut report = blank(probe, machine);
    let mut children = Children {
        report: &mut report,
        interrupts,
        timeout: probe.scope().terms.timeout,
        progress,
    };
    probe.measure(machine, &mut children)?;
    probe.finish(&mut report);
    Ok(report)
}

/// What a probe expects of a machine that is not here: nothing is touched, and nothing is measured.
pub fn expected<P: Probe>(probe: &P, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let mut report = blank(probe, machine);
    let gpus = chosen(probe.scope(), machine, &machine.listed())?;
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
    probe.expect(machine, &mut report)?;
    Ok(report)
}

/// A report with nothing in it yet.
fn blank<P: Probe>(probe: &P, machine: &Machine) -> ProbeReport {
    ProbeReport {
        probe: P::NAME.to_owned(),
        host: machine.host.clone(),
        simulated: probe.scope().sim,
        complete: true,
        gpus: Vec::new(),
        pairs: Vec::new(),
        ends: Vec::new(),
        results: Vec::new(),
        notes: Vec::new(),
    }
}

/// What the bandwidth of copies of so many bytes would be held against: what the link carries, bytes a second, and below which share
/// of it a figure is slow.
pub fn expect_bandwidth(
    about: &Subject,
    name: &str,
    bytes: usize,
    link: Option<u64>,
    share: Option<f64>,
) -> ProbeResult {
    match link {
        Some(link) => {
            let promise = Promise {
                value: link as f64 / 1e9,
                share,
            };
            about.promised(name, bytes, GIGABYTES_PER_SECOND, promise)
        }
        None => {
            let reason = "what its link carries is not known: the CPU reaches it otherwise, or the record does not hold it";
            about.not_measured(name, bytes, reason.to_owned())
        }
    }
}
