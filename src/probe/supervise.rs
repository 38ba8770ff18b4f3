//! The parent's side of a probe: it measures this machine, or states what to expect of a recorded one.

use super::children::{Children, Watcher};
use super::interrupts::Interrupts;
use super::machine::Machine;
use super::scope::{ProbeError, Scope, chosen};
use super::task::Task;
use super::verdict::{Promise, Subject};
use crate::model::figure::FigureKind;
use crate::model::{GIGABYTES_PER_SECOND, ProbeKind, ProbeReport, ProbeResult};

/// A probe and its options. `render` selects the layout of the report by its kind.
pub trait Probe {
    const KIND: ProbeKind;
    type Task: Task;

    /// The options that every probe has.
    fn scope(&self) -> &Scope;

    /// Runs tasks in children until everything is measured. An early end is in the report.
    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError>;

    /// Adds results that are computed from other results.
    fn finish(&self, _: &mut ProbeReport) {}

    /// Adds the expected figures of a recorded machine.
    fn expect(&self, machine: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError>;
}

/// Runs a probe. An interrupt or a hang ends it early, with a note in the report.
pub fn measure<P: Probe>(
    probe: &P,
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn Watcher,
) -> Result<ProbeReport, ProbeError> {
    let mut report = empty_report(probe, machine);
    let mut children = Children {
        report: &mut report,
        interrupts,
        timeout: probe.scope().terms.timeout,
        progress,
        lister: None,
    };
    probe.measure(machine, &mut children)?;
    probe.finish(&mut report);
    Ok(report)
}

/// The figures that a probe expects of a recorded machine. Touches no hardware.
pub fn expected<P: Probe>(probe: &P, machine: &Machine) -> Result<ProbeReport, ProbeError> {
    let mut report = empty_report(probe, machine);
    let gpus = chosen(probe.scope(), machine, &machine.listed())?;
    report.gpus = gpus.iter().map(|gpu| gpu.target().probed(&gpu.listed.name)).collect();
    report.notes.push(
        "Nothing was measured: this machine is recorded. The figures are what its links carry at their best."
            .to_owned(),
    );
    if machine.gpus.is_empty() {
        report.notes.push("The record of this machine has no GPU.".to_owned());
    }
    probe.expect(machine, &mut report)?;
    Ok(report)
}

/// A report without results.
pub fn empty_report<P: Probe>(probe: &P, machine: &Machine) -> ProbeReport {
    ProbeReport {
        probe: P::KIND,
        host: machine.host.clone(),
        simulated: probe.scope().sim,
        complete: true,
        ..ProbeReport::default()
    }
}

/// What a record says of a latency of each GPU.
pub fn expect_no_latency(report: &mut ProbeReport, figure: FigureKind, bytes: usize) {
    let why = "no expected latency: it can only be measured on the machine itself";
    report.results.extend(report.gpus.iter().map(|gpu| {
        let about = Subject::new(&gpu.subject, "cuda");
        about.not_measured(figure.name, bytes, why.to_owned())
    }));
}

/// The expected bandwidth of copies of `bytes`. `link` is the link's peak rate in bytes/s; a figure below `share` of it is slow.
pub fn expect_bandwidth(
    about: &Subject,
    name: &str,
    bytes: usize,
    link: Option<u64>,
    share: Option<f64>,
) -> ProbeResult {
    match link {
        Some(link) => {
            about.promised(name, bytes, GIGABYTES_PER_SECOND, Promise::of_link(link, share))
        }
        None => {
            let reason = "what its link carries is not known: the CPU reaches it otherwise, or the record does not hold it";
            about.not_measured(name, bytes, reason.to_owned())
        }
    }
}
