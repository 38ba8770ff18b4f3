//! The parent's side: which ends there are, a child for each connection, and the machine at the other side.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::pairs::{Named, places, remote};
use super::rendezvous::Secret;
use super::{MemoryPath, Part, Place, Task, across, perftest};
use crate::model::ProbeReport;
use crate::probe::request::{Request, Target};
use crate::probe::supervise::{
    Children, Machine, ProbeError, ProbedNic, Scope, Watcher, blank, chosen,
};
use crate::probe::verdict::Subject;
use crate::probe::watch::Interrupts;

/// Of what the memory under test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// A GPU's where there is one, else the host's.
    Best,
    Host,
    /// The host's, huge pages.
    Huge,
    /// The host's, pinned by a GPU's driver.
    Pinned,
    Gpu,
}

/// Where the remote end is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteEnd {
    /// On this machine: the near port itself, or this one.
    Here(Option<Named>),
    /// Where a gdr listens.
    At {
        host: String,
        port: u16,
        /// The secret of both.
        secret: Secret,
    },
    /// Connects to this address. Without a secret one is generated and printed.
    Comes(SocketAddr, Option<Secret>),
    /// A launcher started it: Slurm's srun, or an mpirun. They meet by this file, or as the launcher says. Without a secret the
    /// file has one.
    Launched(Option<PathBuf>, Option<Secret>),
}

#[derive(Debug, Clone)]
pub struct Options {
    /// Which GPUs, and how much.
    pub scope: Scope,
    pub kind: MemoryKind,
    /// The memory path to GPU memory; none for the first one that works.
    pub memory_path: Option<MemoryPath>,
    /// The NICs; empty for the best ones.
    pub devices: Vec<Named>,
    pub remote: RemoteEnd,
    /// The index of the GID, of every port.
    pub gid: Option<u8>,
    /// Every GPU with every NIC, one figure each.
    pub all: bool,
    /// Queue pairs that move the bandwidth.
    pub queue_pairs: u32,
    /// Tell what perftest would be called with.
    pub perftest: bool,
}

impl Options {
    /// Whether GPUs are asked after.
    fn wants_gpus(&self) -> bool {
        !matches!(self.kind, MemoryKind::Host | MemoryKind::Huge)
    }
}

/// Probes, and reports whatever came of it: an interruption, a hang and the other machine's end end it early, with a note.
pub fn run(
    options: &Options,
    machine: &Machine,
    interrupts: &Interrupts,
    progress: &mut dyn Watcher,
) -> Result<ProbeReport, ProbeError> {
    let mut report = blank("rdma", &options.scope, machine);
    let mut children = Children {
        report: &mut report,
        interrupts,
        timeout: options.scope.terms.timeout,
        progress,
    };
    work(options, machine, &mut children)?;
    if options.perftest {
        let lines = perftest::commands(&report, options);
        report.notes.extend(lines);
    }
    Ok(report)
}

fn work(
    options: &Options,
    machine: &Machine,
    children: &mut Children<'_>,
) -> Result<(), ProbeError> {
    // Whether there is a library at all is the first question: without it nothing else matters.
    let Some(served) = children.nics()? else {
        return Ok(());
    };
    let Some(gpus) = gpus(options, machine, children)? else {
        return Ok(());
    };
    let nics = self::served(machine, &served);
    let found = match places(options, &nics, &gpus) {
        Ok(places) => places,
        Err(why) => {
            refuse(children, why);
            return Ok(());
        }
    };
    match &options.remote {
        RemoteEnd::Here(named) => here(options, &nics, children, &gpus, &found, named.as_ref()),
        RemoteEnd::At { .. } | RemoteEnd::Comes(..) | RemoteEnd::Launched(..) => {
            across::run(options, children, &found)
        }
    }
}

/// Something without which nothing is done.
pub fn refuse(children: &mut Children<'_>, why: String) {
    let about = Subject {
        subject: "machine".to_owned(),
        backend: "verbs".to_owned(),
        numa: None,
    };
    children
        .report
        .results
        .push(about.impossible("rdma", None, true, why));
}

/// The GPUs that take part; none where there is no use in going on.
fn gpus(
    options: &Options,
    machine: &Machine,
    children: &mut Children<'_>,
) -> Result<Option<Vec<Target>>, ProbeError> {
    if !options.wants_gpus() {
        return Ok(Some(Vec::new()));
    }
    let sim = u32::from(options.scope.sim);
    let Some(listed) = children.list_if(sim, options.kind != MemoryKind::Best)? else {
        return Ok(None);
    };
    if listed.is_empty() {
        let note = "No GPU takes part: the memory is the host's.".to_owned();
        children.report.notes.push(note);
        return Ok(Some(Vec::new()));
    }
    let chosen = chosen(&options.scope, machine, &listed)?;
    children.report.gpus = chosen
        .iter()
        .map(|gpu| gpu.target().probed(&gpu.listed.name))
        .collect();
    Ok(Some(chosen.iter().map(|gpu| gpu.target()).collect()))
}

/// Those that libibverbs serves; of one that sysfs does not show, which a container may hide, nothing but its name is known.
pub fn served(machine: &Machine, served: &[String]) -> Vec<ProbedNic> {
    let known = |name: &String| machine.nics.iter().find(|nic| nic.name == *name).cloned();
    let bare = |name: &String| ProbedNic {
        name: name.clone(),
        ports: vec![(1, None)],
        ..ProbedNic::default()
    };
    let of = |name: &String| known(name).unwrap_or_else(|| bare(name));
    served.iter().map(of).collect()
}

fn here(
    options: &Options,
    nics: &[ProbedNic],
    children: &mut Children<'_>,
    gpus: &[Target],
    found: &[Place],
    named: Option<&Named>,
) -> Result<(), ProbeError> {
    for local in found {
        let remote = match named.map(|named| remote(options, nics, gpus, named, local)) {
            Some(Ok(remote)) => remote,
            Some(Err(why)) => {
                refuse(children, why);
                return Ok(());
            }
            None => local.clone(),
        };
        let task = task(options, local, &remote);
        let ran = children.run(&task.subject.clone(), &Request::Rdma(Box::new(task)), &[])?;
        if !ran.go_on {
            break;
        }
    }
    Ok(())
}

/// What a child does that has both ends.
pub fn task(options: &Options, local: &Place, remote: &Place) -> Task {
    let is_loop = local.port == remote.port;
    let ports = if is_loop {
        [None; 2]
    } else {
        [local.rate, remote.rate]
    };
    let subject = match is_loop {
        true => local.subject.clone(),
        false => joint(&local.subject, &remote.subject),
    };
    let limits = [local.path, remote.path].into_iter().chain(ports);
    one(
        options,
        subject,
        Part::Both(local.clone(), remote.clone()),
        limits.flatten().min(),
    )
}

/// What a child does of a connection that carries so many bytes a second.
pub fn one(options: &Options, subject: String, part: Part, limit: Option<u64>) -> Task {
    Task {
        subject,
        part,
        limit,
        room: options.scope.terms.rdma_room(),
        queue_pairs: options.queue_pairs,
        brief: options.all,
        terms: options.scope.terms.clone(),
    }
}

/// As in `GPU0 mlx5_0:1 -> GPU1 mlx5_1:1`.
pub fn joint(local: &str, remote: &str) -> String {
    format!("{local} -> {remote}")
}
