//! The parent's side: a child for each GPU.

use super::{HcaChoice, Task, pingpong, register};
use crate::model::{ProbeReport, ProbeVerdict};
use crate::probe::rdma::{self, Named};
use crate::probe::request::{Request, Target};
use crate::probe::supervise::{Children, Chosen, Machine, ProbeError, Scope, Watcher, probe};
use crate::probe::watch::Interrupts;

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

/// Probes, and reports whatever came of it: an interruption and a hang end it early, with a note.
pub fn run(
    options: &Options,
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn Watcher,
) -> Result<ProbeReport, ProbeError> {
    let scope = (&options.scope, 1);
    let report = probe(
        "async",
        scope,
        machine,
        interrupts,
        progress,
        |children, gpus| work(options, machine, children, gpus),
    );
    report.map(|mut report| {
        match options.behind {
            Behind::Nobody => report.notes.push(NO_CARD.to_owned()),
            Behind::Sim => report.notes.push(SIMULATED.to_owned()),
            // Of which port is told where it is known.
            Behind::Device { .. } => {}
        }
        report
    })
}

fn work(
    options: &Options,
    machine: &Machine,
    children: &mut Children<'_>,
    gpus: Vec<Chosen<'_>>,
) -> Result<(), ProbeError> {
    let nics = match options.behind {
        Behind::Nobody | Behind::Sim => Vec::new(),
        Behind::Device { .. } => match children.nics()? {
            Some(served) => rdma::served(machine, &served),
            None => return Ok(()),
        },
    };
    let hca = |target: &Target| -> Result<Option<HcaChoice>, String> {
        Ok(match &options.behind {
            Behind::Nobody => None,
            Behind::Sim => Some(HcaChoice::Sim),
            Behind::Device { by, device, gid } => {
                let port = rdma::port_of(target, &nics, device.as_ref(), *gid)?;
                Some(match by {
                    By::Gpu => HcaChoice::Mlx5(port),
                    By::Proxy => HcaChoice::Proxy(port),
                })
            }
        })
    };
    for gpu in gpus {
        let target = gpu.target();
        let hca = match hca(&target) {
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
            terms: options.scope.terms.clone(),
            pingpong: None,
        };
        let subject = task.target.subject.clone();
        let ran = children.run(&subject, &Request::Async(Box::new(task.clone())), &[])?;
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
