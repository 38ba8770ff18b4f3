//! The parent's side: one child for each GPU, then two for messages between processes.

use super::settings::Settings;
use super::task::{HcaChoice, Task};
use super::{pingpong, register};
use crate::model::figure::asynchronous::POLL_HOST;
use crate::model::{ProbeKind, ProbeReport, ProbeVerdict};
use crate::probe::children::Children;
use crate::probe::machine::{self, Machine};
use crate::probe::rdma::{self, Named};
use crate::probe::scope::{ProbeError, Scope};
use crate::probe::supervise::Probe;
use crate::probe::target::Target;
use crate::probe::verdict::Subject;

/// `gdr probe async`.
#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    pub hca: HcaOption,
    pub settings: Settings,
}

/// The HCA of the queues, from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HcaOption {
    /// Parts that need queues are left out.
    None,
    Sim,
    Device {
        driver: Driver,
        /// `None`: the nearest device of each GPU.
        device: Option<Named>,
        /// GID index at the port.
        gid: Option<u8>,
    },
}

/// What drives the queues of a verbs device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// The GPU itself; only with mlx5.
    Gpu,
    /// A thread of the CPU that posts to the device.
    Proxy,
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

impl Options {
    /// The HCA for a GPU; the error says why it has no port.
    fn hca_for(
        &self,
        target: &Target,
        nics: &[machine::ProbedNic],
    ) -> Result<Option<HcaChoice>, String> {
        Ok(match &self.hca {
            HcaOption::None => None,
            HcaOption::Sim => Some(HcaChoice::Sim),
            HcaOption::Device { driver, device, gid } => {
                let port = rdma::port_of(target, nics, device.as_ref(), *gid)?;
                Some(match driver {
                    Driver::Gpu => HcaChoice::Mlx5(port),
                    Driver::Proxy => HcaChoice::Proxy(port),
                })
            }
        })
    }
}

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
        let nics = match self.hca {
            HcaOption::None | HcaOption::Sim => Vec::new(),
            HcaOption::Device { .. } => match rdma::served(machine, children)? {
                Some(nics) => nics,
                None => return Ok(()),
            },
        };
        for gpu in gpus {
            let target = gpu.target();
            let hca = match self.hca_for(&target, &nics) {
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
                let is_it = result.subject == subject && result.name == register::LABEL;
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
        match self.hca {
            HcaOption::None => report.notes.push(NO_HCA.to_owned()),
            HcaOption::Sim => {
                report.notes.push(SIMULATED.to_owned());
                if self.settings.by_kernel {
                    report.notes.push(UNTESTED.to_owned());
                }
            }
            // `measure` has added a note with the port.
            HcaOption::Device { .. } => {}
        }
    }

    fn expect(&self, _: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        for gpu in &report.gpus {
            let why = "no expected latency: it can only be measured on the machine itself";
            let about = Subject::new(&gpu.subject, "cuda");
            let result = about.not_measured(POLL_HOST.name, 4, why.to_owned());
            report.results.push(result);
        }
        Ok(())
    }
}
