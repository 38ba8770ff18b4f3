//! The parent's side of one rank: a trial of GPU memory apart from the other ranks, then a child that is the rank.

use std::time::{Duration, Instant};

use super::library::{Candidate, found};
use super::message::RankPair;
use super::task::{Library, Part, Task};
use super::transports::{Situation, VERBOSE, advice, is_verbose, transports};
use super::trial;
use crate::model::figure::mpi::{GPU_TRIAL, MessageMemory};
use crate::model::{ProbeKind, ProbeReport, ProbeVerdict, ProbedMpi};
use crate::probe::children::{ChildResult, Children, Start};
use crate::probe::machine::Machine;
use crate::probe::rendezvous::{LaunchedProcess, from_environment};
use crate::probe::scope::{Chosen, ProbeError, Scope, chosen};
use crate::probe::supervise::Probe;
use crate::probe::target::Target;
use crate::probe::verdict::{Subject, exit_code};
use crate::probe::watch::ChildEnd;

/// `gdr probe mpi`.
#[derive(Debug, Clone)]
pub struct Options {
    pub scope: Scope,
    /// The library; `None` for that of the launcher.
    pub library: Option<std::path::PathBuf>,
    pub memory: MemoryChoice,
}

/// The memory of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MemoryChoice {
    /// Host memory, and GPU memory if there is a GPU.
    #[value(skip)]
    Best,
    /// Host memory only.
    Host,
    /// Host memory and GPU memory.
    // Without a GPU the probe fails.
    Gpu,
}

/// Simulated GPU memory has addresses that no MPI library can access.
const LAUNCHED: &str =
    "--sim simulates MPI too, in one process: start it without a launcher, or omit --sim";
/// A launcher ends all ranks when one fails: the others report first.
const LINGER: Duration = Duration::from_secs(5);
/// Which GPU a rank takes, by the first of these variables.
const LOCAL_RANK: [&str; 4] =
    ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"];
/// Variables of launchers begin so; without them MPI_Init starts a job of one process.
const LAUNCHER: [&str; 14] = [
    "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_MCA_orte_",
    "OMPI_MCA_ess",
    "OMPI_MCA_prte_",
    "OMPI_MCA_pmix",
    "PMIX_",
    "PMI_",
    "PMI2_",
    "PRTE_",
    "SLURM_",
    "HYDRA_",
    "HYDI_",
    "MPI_LOCAL",
];

impl Probe for Options {
    const KIND: ProbeKind = ProbeKind::Mpi;
    type Task = Task;

    fn scope(&self) -> &Scope {
        &self.scope
    }

    fn measure(&self, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
        let place = match from_environment(&|name| std::env::var(name).ok()) {
            Ok(place) => place,
            Err(error) => return impossible(children, error.to_string()),
        };
        let Some(gpu) = self.gpu(machine, children)? else {
            return Ok(());
        };
        let run = Run { options: self, machine, files: self.files() };
        if self.scope.sim {
            return match place {
                None => run.simulated(children, gpu),
                Some(_) => impossible(children, LAUNCHED.to_owned()),
            };
        }
        let known = run.trial(children, gpu.clone())?;
        if children.interrupts.pending() {
            return Ok(());
        }
        let Some(place) = place.filter(|place| place.size != Some(1)) else {
            children.report.mpi = known;
            children.note(
                "One process: latency and bandwidth need two ranks, as in mpirun -n 2 gdr probe mpi, or srun -N2."
                    .to_owned(),
            );
            return Ok(());
        };
        run.rank(children, &place, gpu, known)
    }

    /// Nothing of a recorded machine says what MPI reaches.
    fn expect(&self, _: &Machine, report: &mut ProbeReport) -> Result<(), ProbeError> {
        let note = "No expected value: what MPI reaches is known only where it runs.".to_owned();
        report.notes.push(note);
        Ok(())
    }
}

impl Options {
    fn files(&self) -> Vec<Candidate> {
        match &self.library {
            Some(file) => {
                vec![Candidate { file: file.clone(), reason: "named with --mpi".to_owned() }]
            }
            None => found(),
        }
    }

    /// The GPU of this rank, if it uses one; `None` if the probe cannot continue.
    fn gpu(
        &self,
        machine: &Machine,
        children: &mut Children<'_>,
    ) -> Result<Option<Option<Target>>, ProbeError> {
        if self.memory == MemoryChoice::Host {
            return Ok(Some(None));
        }
        let sim = u32::from(self.scope.sim);
        let Some(listed) = children.list(sim, self.memory == MemoryChoice::Gpu)? else {
            return Ok(None);
        };
        let gpus = chosen(&self.scope, machine, &listed)?;
        let variable = |name: &&str| std::env::var(name).ok()?.parse::<usize>().ok();
        let local = LOCAL_RANK.iter().find_map(variable).unwrap_or(0);
        let gpu = gpus.get(local % gpus.len().max(1)).map(Chosen::target);
        Ok(Some(gpu))
    }
}

fn impossible(children: &mut Children<'_>, why: String) -> Result<(), ProbeError> {
    let result = Subject::machine("mpi").impossible("mpi", None, true, why);
    children.report.results.push(result);
    Ok(())
}

/// One run of the probe on this rank.
struct Run<'a> {
    options: &'a Options,
    machine: &'a Machine,
    files: Vec<Candidate>,
}

impl Run<'_> {
    fn task(&self, library: Library, part: Part, gpu: Option<Target>) -> Task {
        Task { library, part, gpu, terms: self.options.scope.terms.clone() }
    }

    fn simulated(
        &self,
        children: &mut Children<'_>,
        gpu: Option<Target>,
    ) -> Result<(), ProbeError> {
        let part = Part::Rank { launcher: None, rank: 0, size: None };
        children.run("MPI", &self.task(Library::Sim, part, gpu), &[])?;
        let note = "MPI is SIMULATED: two threads exchange messages through this process's memory. The figures say nothing about an \
                    MPI library.";
        children.note(note.to_owned());
        Ok(())
    }

    /// Whether the library takes GPU memory, and what is known of it.
    fn trial(
        &self,
        children: &mut Children<'_>,
        gpu: Option<Target>,
    ) -> Result<Option<ProbedMpi>, ProbeError> {
        let has_gpu = gpu.is_some();
        let task = self.task(Library::Files(self.files.clone()), Part::Trial, gpu);
        let start = Start {
            removed: Some(|name| LAUNCHER.iter().any(|start| name.starts_with(start))),
            keeps_messages: true,
            is_trial: true,
            ..Start::default()
        };
        let before = children.report.results.len();
        let ran = children.run_as("trial", &task, start)?;
        let mut known = children.report.mpi.take();
        let results = &mut children.report.results;
        let outcome = results[before..]
            .iter()
            .find(|result| result.name == GPU_TRIAL)
            .map(|result| result.verdict == ProbeVerdict::Ok);
        let (takes, failure) = match (outcome, crash(&ran)) {
            _ if !has_gpu => (None, None),
            (Some(takes), _) => (Some(takes), None),
            (None, Some((step, how))) if step == trial::STEP => (Some(false), Some(how)),
            // It says nothing about GPU memory if MPI cannot start alone.
            (None, _) => (None, None),
        };
        if let Some(how) = failure {
            let backend = known.as_ref().map_or("mpi", |known| known.abi.as_str());
            let library = known.as_ref().map_or_else(
                || "the library".to_owned(),
                |known| known.file.clone().unwrap_or_else(|| known.version.clone()),
            );
            let why = format!(
                "not CUDA-aware: {library} treats a GPU pointer as a host pointer, and its process {how}; use an MPI built with CUDA \
                 (HPC SDK, HPC-X, or your own with --with-cuda), see gdr doctor --only mpi.cuda-aware,env.contradiction"
            );
            let about = Subject::new("trial", backend);
            results.push(about.impossible(GPU_TRIAL, None, true, why));
        }
        if !ran.whole && takes.is_none() {
            let why = ran.failure.clone().unwrap_or_default();
            children.note(format!(
                "MPI did not run in a process of its own ({why}): whether it takes GPU memory is unknown"
            ));
            ran.messages.iter().for_each(|line| children.progress.message(line));
        }
        if let Some(known) = &mut known {
            known.takes_gpu = takes;
        }
        Ok(known)
    }

    /// The child that is this rank.
    fn rank(
        &self,
        children: &mut Children<'_>,
        place: &LaunchedProcess,
        gpu: Option<Target>,
        known: Option<ProbedMpi>,
    ) -> Result<(), ProbeError> {
        let takes = known.as_ref().and_then(|known| known.takes_gpu);
        let part = Part::of_rank(place);
        // Where the trial says nothing, the rank itself tries.
        let usable = gpu.clone().filter(|_| takes != Some(false));
        let task = self.task(Library::Files(self.files.clone()), part, usable);
        let unset: Vec<(&str, &str)> =
            VERBOSE.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()).collect();
        let start = Start { set: &unset, keeps_messages: true, ..Start::default() };
        let name = format!("rank {}", place.rank);
        let ran = children.run_as(&name, &task, start)?;
        for line in ran.messages.iter().filter(|line| !is_verbose(line)) {
            children.progress.message(&format!("{name}: {line}"));
        }
        let Some(mpi) = &mut children.report.mpi else {
            children.report.mpi = known;
            linger(children, place, &ran);
            return Ok(());
        };
        mpi.takes_gpu = takes;
        if place.rank == 0 {
            let pairs = measured(&children.report.results);
            mpi.transports = transports(&ran.messages, &pairs);
            let situation = Situation {
                mpi,
                port: port(self.machine),
                has_gpu: gpu.is_some(),
                gpu_share: gpu_share(&children.report.results),
            };
            let sentences = advice(&situation);
            if mpi.transports.is_empty() && !pairs.is_empty() {
                children.note("The library did not say which transports it uses.".to_owned());
            }
            sentences.into_iter().for_each(|sentence| children.note(sentence));
        }
        linger(children, place, &ran);
        Ok(())
    }
}

/// The step in which a child crashed or stopped, and how.
fn crash(ran: &ChildResult) -> Option<(&str, String)> {
    match ran.ended.as_ref()? {
        ChildEnd::Crashed(step, status) => Some((&step.what, format!("ended ({status})"))),
        ChildEnd::Hung(step) => Some((&step.what, "hung".to_owned())),
        _ => None,
    }
}

/// The pairs with results.
fn measured(results: &[crate::model::ProbeResult]) -> Vec<RankPair> {
    let mut pairs: Vec<RankPair> = Vec::new();
    for result in results {
        let Some(rest) = result.subject.strip_prefix("rank 0 > rank ") else {
            continue;
        };
        let Some((rank, place)) = rest.split_once(' ') else {
            continue;
        };
        let pair = rank.parse().map(|rank| RankPair { rank, same_host: place == "(same host)" });
        pairs.extend(pair.ok().filter(|pair| !pairs.contains(pair)));
    }
    pairs
}

/// The lowest share of host memory's bandwidth that GPU memory reaches, of the largest messages.
fn gpu_share(results: &[crate::model::ProbeResult]) -> Option<f64> {
    let best = |subject: &str, name: &str| {
        let mut results = results
            .iter()
            .filter(|result| (result.subject.as_str(), result.name.as_str()) == (subject, name));
        results.by_ref().filter_map(|result| result.median).max_by(f64::total_cmp)
    };
    let share = |result: &crate::model::ProbeResult| {
        let gpu = best(&result.subject, MessageMemory::Gpu.bandwidth().name)?;
        Some(gpu / best(&result.subject, MessageMemory::Host.bandwidth().name)?)
    };
    results.iter().filter_map(share).min_by(f64::total_cmp)
}

/// An RDMA port that is up.
fn port(machine: &Machine) -> Option<String> {
    let mut nics = machine.nics.iter().filter(|nic| !nic.software);
    nics.find_map(|nic| {
        let (port, _) = nic.ports.first()?;
        Some(format!("{}:{port}", nic.name))
    })
}

/// Keeps the process of a rank that failed until rank 0 has reported. A trial that failed is a failure too: mpirun would interrupt rank 0
/// where this process ends with its status first.
fn linger(children: &Children<'_>, place: &LaunchedProcess, ran: &ChildResult) {
    let has_failed = !ran.whole || exit_code(children.report) != 0;
    if place.rank == 0 || !has_failed {
        return;
    }
    let begun = Instant::now();
    while begun.elapsed() < LINGER && !children.interrupts.pending() {
        std::thread::sleep(Duration::from_millis(50));
    }
}
