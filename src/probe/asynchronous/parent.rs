//! The parent's side: one child for each GPU, then two for messages between processes.

use super::pingpong;
use super::settings::Settings;
use super::task::Task;
use crate::model::figure::asynchronous::{POLL_HOST, REGISTER};
use crate::model::{ProbeKind, ProbeReport, ProbeVerdict};
use crate::probe::children::Children;
use crate::probe::hca::{HcaChoice, HcaOption, HcaProvider};
use crate::probe::machine::Machine;
use crate::probe::scope::{ProbeError, Scope};
use crate::probe::supervise::{Probe, expect_no_latency};

/// `gdr probe async`.
#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    /// `None`: parts that need queues are left out.
    pub hca: Option<HcaOption>,
    pub settings: Settings,
}

/// The note without an HCA.
const NO_HCA: &str = "Doorbells and completions were left out: they need an HCA. Use --hca mlx5 with an mlx5 NIC, --hca proxy with any RDMA \
                       device, or --hca sim for a software HCA.";
/// The note with a software HCA.
const SIMULATED: &str = "The HCA is SIMULATED: a thread of the CPU reads the doorbells, executes the WQEs and writes the completions. \
                         Its figures show the cost of streams and queues, and nothing about a NIC.";
/// The note about kernels with a software HCA.
const UNTESTED: &str = "Kernels rang a doorbell register in host memory: this tests queues, ordering and kernels. Whether the driver maps a \
                        NIC's register for the GPU (IOMEMORY) is untested: gdr doctor --live --only rdma.uar-map tries that.";

impl Probe for Options {
    const KIND: ProbeKind = ProbeKind::Async;
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        let gpus = children.gpus(&self.scope, 1, machine)?;
        if gpus.is_empty() {
            return Ok(());
        }
        let nics = match &self.hca {
            None => Some(Vec::new()),
            Some(hca) => hca.nics(machine, children)?,
        };
        let Some(nics) = nics else {
            return Ok(());
        };
        for gpu in gpus {
            let target = gpu.target();
            let hca = self.hca.as_ref().map(|hca| hca.choice(&target, &nics));
            let hca = match hca.transpose() {
                Ok(hca) => hca,
                Err(why) => {
                    let about = target.about("verbs", None);
                    children.report.results.push(about.impossible("async", None, true, why));
                    continue;
                }
            };
            let task = Task {
                target,
                hca,
                terms: self.scope.terms.clone(),
                settings: self.settings.clone(),
                pingpong: None,
            };
            let subject = task.target.subject.clone();
            let ran = children.run(&subject, &task, &[])?;
            let report = &mut *children.report;
            let is_opened = report.gpus.iter().any(|gpu| gpu.subject == subject);
            let is_refused = report.results.iter().any(|result| {
                let is_it = result.subject == subject && result.name == REGISTER;
                is_it && result.verdict != ProbeVerdict::Ok
            });
            let note = task.hca.as_ref().and_then(HcaChoice::note);
            if let Some(note) = note.filter(|_| !is_refused) {
                report.notes.push(format!("{subject}: {note}"));
            }
            if !ran.go_on {
                break;
            }
            // If one process failed, two would fail too.
            let is_well = ran.whole && is_opened && !is_refused;
            if task.hca.is_some() && is_well && !pingpong::between(children, &task)? {
                break;
            }
        }
        Ok(())
    }

    fn finish(&self, report: &mut ProbeReport) {
        report.notes.extend(self.settings.note());
        match self.hca.as_ref().map(|hca| hca.provider) {
            None => report.notes.push(NO_HCA.to_owned()),
            Some(HcaProvider::Sim) => {
                report.notes.push(SIMULATED.to_owned());
                if self.settings.by_kernel {
                    report.notes.push(UNTESTED.to_owned());
                }
            }
            // `measure` has added a note with the port.
            Some(_) => {}
        }
    }

    fn expect(&self, _: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        expect_no_latency(report, POLL_HOST, 4);
        Ok(())
    }
}
