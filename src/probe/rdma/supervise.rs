//! The parent's side: which ends there are, a child for each connection, and the machine at the other side.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::pairs::{Named, far, places};
use super::rendezvous::Secret;
use super::{Part, Place, Road, Task, across, perftest};
use crate::model::ProbeReport;
use crate::probe::request::{Request, Target};
use crate::probe::supervise::{Card, Children, Machine, ProbeError, Scope, Watcher, blank, chosen};
use crate::probe::verdict::Subject;
use crate::probe::watch::Interrupts;

/// Of what the memory under test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A GPU's where there is one, else the host's.
    Best,
    /// The host's.
    Host,
    /// The host's, huge pages.
    Huge,
    /// The host's, pinned by a GPU's driver.
    Pinned,
    /// A GPU's.
    Gpu,
}

/// Where the far end is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Far {
    /// On this machine: the near port itself, or this one.
    Here(Option<Named>),
    /// Where a gdr listens.
    At {
        /// Name or address.
        host: String,
        /// Its port.
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

/// What to probe.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which GPUs, and how much.
    pub scope: Scope,
    /// The memory.
    pub sort: Sort,
    /// The road to GPU memory; none for the first one that works.
    pub road: Option<Road>,
    /// The cards; empty for the best ones.
    pub devices: Vec<Named>,
    /// The far end.
    pub far: Far,
    /// The index of the GID, of every port.
    pub gid: Option<u8>,
    /// Every GPU with every card, one figure each.
    pub all: bool,
    /// Queue pairs that move the bandwidth.
    pub queue_pairs: u32,
    /// Tell what perftest would be called with.
    pub perftest: bool,
}

impl Options {
    /// Whether GPUs are asked after.
    fn wants_gpus(&self) -> bool {
        !matches!(self.sort, Sort::Host | Sort::Huge)
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
        patience: options.scope.terms.patience,
        progress,
    };
    work(options, machine, &mut children)?;
    if options.perftest {
        let lines = perftest::commands(&report, options);
        report.notes.extend(lines);
    }
    Ok(report)
}

fn work(options: &Options, machine: &Machine, children: &mut Children<'_>) -> Result<(), ProbeError> {
    // Whether there is a library at all is the first question: without it nothing else matters.
    let Some(served) = children.cards()? else {
        return Ok(());
    };
    let Some(gpus) = gpus(options, machine, children)? else {
        return Ok(());
    };
    let cards = self::served(machine, &served);
    let found = match places(options, &cards, &gpus) {
        Ok(places) => places,
        Err(why) => {
            refuse(children, why);
            return Ok(());
        }
    };
    match &options.far {
        Far::Here(named) => here(options, &cards, children, &gpus, &found, named.as_ref()),
        Far::At { .. } | Far::Comes(..) | Far::Launched(..) => across::run(options, children, &found),
    }
}

/// Something without which nothing is done.
pub fn refuse(children: &mut Children<'_>, why: String) {
    let about = Subject {
        subject: "machine".to_owned(),
        backend: "verbs".to_owned(),
        numa: None,
    };
    children.report.results.push(about.impossible("rdma", None, true, why));
}

/// The GPUs that take part; none where there is no use in going on.
fn gpus(options: &Options, machine: &Machine, children: &mut Children<'_>) -> Result<Option<Vec<Target>>, ProbeError> {
    if !options.wants_gpus() {
        return Ok(Some(Vec::new()));
    }
    let sim = u32::from(options.scope.sim);
    let Some(listed) = children.list_if(sim, options.sort != Sort::Best)? else {
        return Ok(None);
    };
    if listed.is_empty() {
        let note = "No GPU takes part: the memory is the host's.".to_owned();
        children.report.notes.push(note);
        return Ok(Some(Vec::new()));
    }
    let chosen = chosen(&options.scope, machine, &listed)?;
    children.report.gpus = chosen.iter().map(|gpu| gpu.target().probed(&gpu.listed.name)).collect();
    Ok(Some(chosen.iter().map(|gpu| gpu.target()).collect()))
}

/// Those that libibverbs serves; of one that sysfs does not show, which a container may hide, nothing but its name is known.
pub fn served(machine: &Machine, served: &[String]) -> Vec<Card> {
    let known = |name: &String| machine.cards.iter().find(|card| card.name == *name).cloned();
    let bare = |name: &String| Card {
        name: name.clone(),
        ports: vec![(1, None)],
        ..Card::default()
    };
    let of = |name: &String| known(name).unwrap_or_else(|| bare(name));
    served.iter().map(of).collect()
}

fn here(
    options: &Options,
    cards: &[Card],
    children: &mut Children<'_>,
    gpus: &[Target],
    found: &[Place],
    named: Option<&Named>,
) -> Result<(), ProbeError> {
    for near in found {
        let far = match named.map(|named| far(options, cards, gpus, named, near)) {
            Some(Ok(far)) => far,
            Some(Err(why)) => {
                refuse(children, why);
                return Ok(());
            }
            None => near.clone(),
        };
        let task = task(options, near, &far);
        let ran = children.run(&task.subject.clone(), &Request::Rdma(Box::new(task)), &[])?;
        if !ran.go_on {
            break;
        }
    }
    Ok(())
}

/// What a child does that has both ends.
pub fn task(options: &Options, near: &Place, far: &Place) -> Task {
    let is_loop = near.port == far.port;
    let ports = if is_loop { [None; 2] } else { [near.rate, far.rate] };
    let subject = match is_loop {
        true => near.subject.clone(),
        false => joint(&near.subject, &far.subject),
    };
    let limits = [near.path, far.path].into_iter().chain(ports);
    one(
        options,
        subject,
        Part::Both(near.clone(), far.clone()),
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
pub fn joint(near: &str, far: &str) -> String {
    format!("{near} -> {far}")
}
