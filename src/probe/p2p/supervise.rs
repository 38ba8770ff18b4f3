//! The parent's side: all GPUs in one child, and another for what a child that failed has left.

use super::{Pair, Task, Unit};
use crate::model::ProbeReport;

use crate::probe::request::{Request, Target};
use crate::probe::supervise::{Chosen, Machine, ProbeError, Scope, Watcher, probe};
use crate::probe::verdict::Subject;
use crate::probe::watch::Interrupts;

/// Simulated GPUs: enough for one to all.
const SIMULATED: u32 = 3;

#[derive(Debug, Clone)]
pub struct Options {
    /// Which GPUs, and how much.
    pub scope: Scope,
}

/// Probes, and reports whatever came of it: an interruption and a hang end it early, with a note.
pub fn run(
    options: &Options,
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn Watcher,
) -> Result<ProbeReport, ProbeError> {
    let scope = (&options.scope, SIMULATED);
    probe(
        "p2p",
        scope,
        machine,
        interrupts,
        progress,
        |children, gpus| {
            let mut task = task(options, machine, &gpus);
            if task.gpus.len() < 2 {
                let only = task
                    .gpus
                    .first()
                    .map_or_else(String::new, |gpu| gpu.subject.clone());
                let about = Subject {
                    subject: "machine".to_owned(),
                    backend: task.backend().to_owned(),
                    numa: None,
                };
                let why = format!(
                    "peer to peer needs two GPUs, and there is {only} alone: see --gpu and CUDA_VISIBLE_DEVICES"
                );
                children
                    .report
                    .results
                    .push(about.impossible("p2p", None, true, why));
            }
            while !task.units.is_empty() {
                let ran = children.run("GPUs", &Request::P2p(Box::new(task.clone())), &[])?;
                if ran.whole || !ran.go_on || ran.units == 0 {
                    break;
                }
                // The unit it was at is told as failed.
                task.units.drain(..ran.units.min(task.units.len()));
            }
            Ok(())
        },
    )
}

/// Everything there is to do with these GPUs.
pub(super) fn task(options: &Options, machine: &Machine, gpus: &[Chosen<'_>]) -> Task {
    let gpus: Vec<Target> = gpus.iter().map(Chosen::target).collect();
    let count = gpus.len();
    let ordered = (0..count).flat_map(|from| {
        (0..count)
            .filter(move |to| *to != from)
            .map(move |to| (from, to))
    });
    let pairs: Vec<Pair> = ordered
        .map(|(from, to)| Pair {
            from,
            to,
            between: machine
                .way(gpus[from].bdf, gpus[to].bdf)
                .cloned()
                .unwrap_or_default(),
        })
        .collect();
    let mut units: Vec<Unit> = (0..count).map(Unit::Alone).collect();
    units.extend((0..pairs.len()).map(Unit::Pair));
    // With two GPUs these are the pairs again.
    if count > 2 {
        units.extend((0..count).flat_map(|gpu| [Unit::OneToAll(gpu), Unit::AllToOne(gpu)]));
    }
    if count > 1 {
        units.push(Unit::All);
    }
    Task {
        gpus,
        pairs,
        units,
        terms: options.scope.terms.clone(),
    }
}
