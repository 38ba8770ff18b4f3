//! The parent's side: a child for each GPU, and then two for messages between processes.

use super::task::{HcaChoice, Task};
use super::{pingpong, register};
use crate::model::{ProbeReport, ProbeVerdict};
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
    /// Which GPUs, and how much.
    pub scope: Scope,
    /// Who is behind the queues.
    pub behind: Behind,
}

/// Who is behind the queues, as a person says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behind {
    /// Nobody: what needs queues is left out.
    Nobody,
    Sim,
    Device {
        /// How its queues are driven.
        by: By,
        /// Which; none for each GPU's best one.
        device: Option<Named>,
        /// The index of the port's GID.
        gid: Option<u8>,
    },
}

/// How a verbs device's queues are driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// By the GPU itself: an mlx5 NIC.
    Gpu,
    /// By a thread of the CPU that posts to it.
    Proxy,
}

/// Said where queues were left out.
const NO_CARD: &str = "Doorbells and completions were left out: they need an HCA. --hca mlx5 has them on an mlx5 NIC, --hca proxy on any RDMA \
                       device, --hca sim on a software HCA.";
/// Said where the NIC is none.
const SIMULATED: &str = "The HCA is SIMULATED: a thread of the CPU reads the doorbells, executes the entries and writes the completions. \
                         Its figures say what streams and queues cost, and nothing about a NIC.";

impl Options {
    /// Who is behind the queues for this GPU; an error says why there is no such port.
    fn hca(
        &self,
        target: &Target,
        nics: &[machine::ProbedNic],
    ) -> Result<Option<HcaChoice>, String> {
        Ok(match &self.behind {
            Behind::Nobody => None,
            Behind::Sim => Some(HcaChoice::Sim),
            Behind::Device { by, device, gid } => {
                let port = rdma::port_of(target, nics, device.as_ref(), *gid)?;
                Some(match by {
                    By::Gpu => HcaChoice::Mlx5(port),
                    By::Proxy => HcaChoice::Proxy(port),
                })
            }
        })
    }
}

impl Probe for Options {
    const NAME: &'static str = "async";
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        let gpus = children.gpus(&self.scope, 1, machine)?;
        if gpus.is_empty() {
            return Ok(());
        }
        let nics = match self.behind {
            Behind::Nobody | Behind::Sim => Vec::new(),
            Behind::Device { .. } => match children.nics()? {
                Some(served) => rdma::served(machine, &served),
                None => return Ok(()),
            },
        };
        for gpu in gpus {
            let target = gpu.target();
            let hca = match self.hca(&target, &nics) {
                Ok(hca) => hca,
                Err(why) => {
                    let about = target.about("verbs", None);
                    children
                        .report
                        .results
                        .push(about.impossible("async", None, true, why));
                    continue;
                }
            };
            let task = Task {
                target,
                hca,
                terms: self.scope.terms.clone(),
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
            // Where one process could not do its work, two cannot either.
            let is_well = ran.whole && is_opened && !is_refused;
            if task.hca.is_some() && is_well && !pingpong::between(children, &task)? {
                break;
            }
        }
        Ok(())
    }

    fn finish(&self, report: &mut ProbeReport) {
        match self.behind {
            Behind::Nobody => report.notes.push(NO_CARD.to_owned()),
            Behind::Sim => report.notes.push(SIMULATED.to_owned()),
            // The note that names the port is added where the port is known.
            Behind::Device { .. } => {}
        }
    }

    /// The machine's GPUs: no link promises how soon a stream sees a word.
    fn expect(&self, _: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        for gpu in &report.gpus {
            let why = "no link promises how soon a stream sees a word: it is measured on the machine itself";
            let about = Subject::new(&gpu.subject, "cuda");
            let result = about.not_measured("async.poll.host.latency", 4, why.to_owned());
            report.results.push(result);
        }
        Ok(())
    }
}
