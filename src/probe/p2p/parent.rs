//! The parent's side: all GPUs in one child, and another child for the units that a failed one leaves.

use super::cluster::LIMITED_BY_LINK;
use super::task::{OrderedPair, Task, Unit, arrow};
use crate::model::figure::p2p;
use crate::model::{ProbeKind, ProbeReport, ProbeResult, ProbedGpu, ProbedPair, Shares};
use crate::probe::children::Children;
use crate::probe::machine::Machine;
use crate::probe::scope::{Chosen, ProbeError, Scope};
use crate::probe::supervise::{Probe, expect_bandwidth};
use crate::probe::target::Target;
use crate::probe::verdict::Subject;

/// Number of simulated GPUs: enough for one-to-all.
const SIMULATED: u32 = 3;

/// `gdr probe p2p`.
#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
}

impl Probe for Options {
    const KIND: ProbeKind = ProbeKind::P2p;
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        let gpus = children.gpus(&self.scope, SIMULATED, machine)?;
        if gpus.is_empty() {
            return Ok(());
        }
        let mut task = task(self, machine, &gpus);
        if task.gpus.len() < 2 {
            let only = task.gpus.first().map_or("", |gpu| gpu.subject.as_str());
            let why = format!(
                "peer to peer needs two GPUs, but only {only} is selected: see --gpu and CUDA_VISIBLE_DEVICES"
            );
            let result = Subject::machine(task.backend()).impossible("p2p", None, true, why);
            children.report.results.push(result);
        }
        while !task.units.is_empty() {
            let ran = children.run("GPUs", &task, &[])?;
            if ran.whole || !ran.go_on || ran.units == 0 {
                break;
            }
            // The failed unit has its result; the next child continues after it.
            task.units.drain(..ran.units.min(task.units.len()));
        }
        Ok(())
    }

    fn expect(&self, machine: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        let gpus = &report.gpus;
        let ordered = gpus.iter().flat_map(|from| gpus.iter().map(move |to| (from, to)));
        for (from, to) in ordered.filter(|(from, to)| from.subject != to.subject) {
            let pair = pair_of(machine, from, to);
            report.results.push(expect_of(&pair, self.scope.terms.shares));
            report.pairs.push(pair);
        }
        Ok(())
    }
}

/// GPUDirect v2 from the first of these GPUs to the second one, at these sizes, as in `gdr probe transfer`; `None` with fewer GPUs.
pub fn curve(
    scope: &Scope,
    machine: &Machine,
    gpus: &[Chosen<'_>],
    sizes: Vec<usize>,
) -> Option<Task> {
    let options = Options { scope: scope.clone() };
    let mut task = task(&options, machine, gpus.get(..2)?);
    task.units = vec![Unit::Curve(0)];
    task.terms.sizes = sizes;
    Some(task)
}

/// All units for these GPUs.
fn task(options: &Options, machine: &Machine, gpus: &[Chosen<'_>]) -> Task {
    let gpus: Vec<Target> = gpus.iter().map(Chosen::target).collect();
    let count = gpus.len();
    let ordered = (0..count)
        .flat_map(|from| (0..count).filter(move |to| *to != from).map(move |to| (from, to)));
    let pairs: Vec<OrderedPair> = ordered
        .map(|(from, to)| OrderedPair {
            from,
            to,
            path: machine.path(gpus[from].bdf, gpus[to].bdf).cloned().unwrap_or_default(),
        })
        .collect();
    let mut units: Vec<Unit> = (0..count).map(Unit::Alone).collect();
    units.extend((0..pairs.len()).map(Unit::Pair));
    // With two GPUs these equal the pairs.
    if count > 2 {
        units.extend((0..count).flat_map(|gpu| [Unit::OneToAll(gpu), Unit::AllToOne(gpu)]));
    }
    if count > 1 {
        units.push(Unit::All);
    }
    Task { gpus, pairs, units, terms: options.scope.terms.clone() }
}

fn pair_of(machine: &Machine, from: &ProbedGpu, to: &ProbedGpu) -> ProbedPair {
    let path = machine.path(from.bdf, to.bdf).cloned().unwrap_or_default();
    ProbedPair {
        subject: arrow(&from.subject, &to.subject),
        from: from.subject.clone(),
        to: to.subject.clone(),
        can_access: None,
        performance_rank: None,
        atomics: None,
        nvml: path.nvml,
        nvlinks: path.nvlinks,
        class: path.class,
        // The rate of an NVLink depends on the GPU's generation, which only CUDA knows.
        link: path.pci.filter(|_| path.nvlinks.is_none_or(|links| links == 0)),
    }
}

fn expect_of(pair: &ProbedPair, shares: Shares) -> ProbeResult {
    let about = Subject::new(&pair.subject, "cuda");
    let name = p2p::WRITE.name;
    match (pair.link, pair.nvlinks) {
        (Some(link), _) => {
            expect_bandwidth(&about, name, LIMITED_BY_LINK, Some(link), shares.pci_express)
        }
        (None, Some(links)) if links > 0 => {
            let why = format!("{links} NVLinks; their rate is only known on the machine itself");
            about.not_measured(name, LIMITED_BY_LINK, why)
        }
        _ => {
            let why = "the rate of the path between them is not in this record".to_owned();
            about.not_measured(name, LIMITED_BY_LINK, why)
        }
    }
}
