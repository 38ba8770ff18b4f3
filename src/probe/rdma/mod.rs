//! `gdr probe rdma`: memory that a NIC moves, verified where it arrived, and measured as perftest measures.
//!
//! Two ends each have a NIC's port, memory under test and a connection, and agree over a [`control::Control`] on each step. One
//! of them leads: it says what comes next, and tells the results. The ends are two threads of one child, on one port or two, or
//! two children on two machines, whose parents carry what they say; neither knows which.

mod across;
mod channel;
mod client;
mod connected;
pub mod control;
mod end;
mod expected;
mod memory;
mod memory_paths;
mod pairs;
mod perftest;
mod plan;
mod purpose;
pub mod rendezvous;
mod server;
mod staged;
mod stream;
mod supervise;
#[cfg(test)]
mod tests;
mod turns;

use std::io;

use serde::{Deserialize, Serialize};

use super::child::keep_to_half;
use super::depth::Terms;
use super::events::{Event, Reporter};
use super::failure::StepError;
use super::request::Target;
use super::verdict::Subject;
use channel::Channel;
use end::End;

pub use expected::expected;
pub use pairs::{Named, port_of};
pub use supervise::{MemoryKind, Options, RemoteEnd, run, served};

/// A port of a NIC, and how it is addressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The NIC, as in `mlx5_0`.
    pub device: String,
    /// Its port, from 1.
    pub number: u8,
    /// The index of its GID; none for the best one.
    pub gid: Option<u8>,
}

/// By which way a NIC reaches GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPath {
    /// GPUDirect RDMA by a dma-buf.
    Dmabuf,
    /// GPUDirect RDMA by a peer memory client of the kernel.
    Peermem,
    /// Not at all: a copy engine carries it through pinned memory.
    Staged,
}

impl MemoryPath {
    /// In the names of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dmabuf => "dmabuf",
            Self::Peermem => "peermem",
            Self::Staged => "staged",
        }
    }
}

/// The memory under test of one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Ordinary pages of the host.
    Host,
    /// Huge pages of the host.
    Huge,
    /// Pages that a GPU's driver pinned.
    Pinned(Target),
    /// A GPU's own, by this memory path; by none, the first one that works.
    Gpu(Target, Option<MemoryPath>),
}

/// What an end is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// As results name it: `GPU0 mlx5_0:1`.
    pub subject: String,
    pub port: Port,
    pub memory: Memory,
    /// How GPU and NIC meet, in nvidia-smi's letters.
    pub class: Option<String>,
    /// What the way between GPU and NIC carries, bytes a second.
    pub path: Option<u64>,
    /// What the port carries, bytes a second.
    pub rate: Option<u64>,
}

/// The ends that one child has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Both, on this machine: the one that leads first.
    Both(Place, Place),
    /// The one that leads; the other is where the parent is connected to.
    Lead(Place),
    Follow(Place),
}

/// A connection to prove and to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// As results name it: `GPU0 mlx5_0:1`, or `GPU0 mlx5_0:1 -> GPU1 mlx5_1:1`.
    pub subject: String,
    pub part: Part,
    /// What the connection carries, bytes a second; none where that is not known.
    pub limit: Option<u64>,
    /// The largest message: each end has room for two.
    pub room: usize,
    /// Queue pairs that move the bandwidth.
    pub queue_pairs: u32,
    /// One figure and no more: the bandwidth of writes of the largest message.
    pub brief: bool,
    /// How much, and how long.
    pub terms: Terms,
}

/// Lists the RDMA devices.
pub fn nics(reporter: &mut Reporter<'_>) -> io::Result<()> {
    reporter.doing("libibverbs.so.1 to list the RDMA devices")?;
    match verbs::device_names() {
        Ok(names) => reporter.tell(&Event::Nics(names)),
        Err(error) if error.is_absent() => reporter.tell(&Event::Lacking(lacking(&error))),
        Err(error) => {
            let machine = Subject {
                subject: "machine".to_owned(),
                backend: "verbs".to_owned(),
                numa: None,
            };
            reporter.result(machine.impossible("rdma", None, true, gpu::sentence(&error)))
        }
    }
}

fn lacking(error: &verbs::Error) -> String {
    format!(
        "{}: install rdma-core's libibverbs and the provider of the NIC (Debian, Ubuntu: libibverbs1 and ibverbs-providers; \
         Fedora, RHEL, SUSE: libibverbs)",
        gpu::sentence(error)
    )
}

/// Does this child's part.
pub fn answer(task: &Task, reporter: &mut Reporter<'_>) -> io::Result<()> {
    connected::count_cpus();
    let done = match &task.part {
        Part::Both(local, remote) => both(task, local, remote, reporter),
        Part::Lead(place) => alone(task, place, false, reporter),
        Part::Follow(place) => alone(task, place, true, reporter),
    };
    match done {
        Ok(()) => Ok(()),
        // Nobody hears it any more.
        Err(StepError::Io(error)) => Err(error),
        Err(StepError::Verbs(error)) if error.is_absent() => {
            reporter.tell(&Event::Lacking(lacking(&error)))
        }
        Err(failure) => {
            let about = Subject {
                subject: task.subject.clone(),
                backend: "verbs".to_owned(),
                numa: None,
            };
            reporter.result(about.impossible("rdma", None, true, memory_paths::advised(&failure)))
        }
    }
}

/// One end, and the other one is another process's.
fn alone(
    task: &Task,
    place: &Place,
    is_server: bool,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let mut control = Channel::to_parent(task.terms.timeout);
    let opened = open(task, place, is_server, reporter);
    let mut end = match opened {
        Ok(end) => end,
        Err(failure) => return Err(client::told(None, &mut control, failure)),
    };
    match is_server {
        true => server::server(&mut end, task.room, &mut control, Some(reporter)),
        false => client::client(&mut end, &mut control, task, reporter),
    }
}

fn open(
    task: &Task,
    place: &Place,
    remote: bool,
    reporter: &mut Reporter<'_>,
) -> Result<End, StepError> {
    reporter.doing(format!("{} to open", place.subject))?;
    let end = End::open(place, task.room, task.terms.timeout)?;
    reporter.tell(&Event::Connected(Box::new(end.probed(place, remote))))?;
    Ok(end)
}

fn both(
    task: &Task,
    local: &Place,
    remote: &Place,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (mut near_control, mut far_control) = Channel::pair(task.terms.timeout);
    let mut local = open(task, local, false, reporter)?;
    let mut remote = open(task, remote, true, reporter)?;
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || {
            keep_to_half(false);
            server::server(&mut remote, task.room, &mut far_control, None)
        });
        keep_to_half(true);
        let led = client::client(&mut local, &mut near_control, task, reporter);
        // The follower hears that nobody leads it any more.
        drop(near_control);
        let followed = match follower.join() {
            Ok(followed) => followed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // Where both failed, the one that failed by itself tells more.
        match (led, followed) {
            (Err(failure), Err(cause)) if failure.is_of_the_remote_end() => Err(cause),
            (Ok(()), Err(cause)) => Err(cause),
            (led, _) => led,
        }
    })
}
