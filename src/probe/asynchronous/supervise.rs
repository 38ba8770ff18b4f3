//! The parent's side: a child for each GPU.

use super::{Card, Task};
use crate::model::ProbeReport;
use crate::probe::request::Request;
use crate::probe::supervise::{Machine, ProbeError, Scope, Watcher, probe};
use crate::probe::watch::Interrupts;

/// What to probe.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which GPUs, and how much.
    pub scope: Scope,
    /// Who is behind the queues.
    pub card: Option<Card>,
}

/// Said where queues were left out.
const NO_CARD: &str =
    "Doorbells and completions were left out: they need a card. --hca sim has them on a software HCA.";
/// Said where the card is none.
const SIMULATED: &str = "The HCA is SIMULATED: a thread of the CPU reads the doorbells, executes the entries and writes the completions. \
                         Its figures say what streams and queues cost, and nothing about a card.";

/// Probes, and reports whatever came of it: an interruption and a hang end it early, with a note.
pub fn run(
    options: &Options,
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn Watcher,
) -> Result<ProbeReport, ProbeError> {
    let scope = (&options.scope, 1);
    let report = probe("async", scope, machine, interrupts, progress, |children, gpus| {
        for gpu in gpus {
            let task = Task {
                target: gpu.target(),
                card: options.card,
                terms: options.scope.terms.clone(),
            };
            let subject = task.target.subject.clone();
            if !children.run(&subject, &Request::Async(Box::new(task)), &[])?.go_on {
                break;
            }
        }
        Ok(())
    });
    report.map(|mut report| {
        let note = if options.card.is_some() { SIMULATED } else { NO_CARD };
        report.notes.push(note.to_owned());
        report
    })
}
