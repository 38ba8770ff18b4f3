//! `gdr probe rdma`: memory that a card moves, verified where it arrived, and measured as perftest measures.
//!
//! Two ends each have a card's port, memory under test and a connection, and agree over a [`control::Control`] on each step. One
//! of them leads: it says what comes next, and tells the results. The ends are two threads of one child, on one port or two, or
//! two children on two machines, whose parents carry what they say; neither knows which.

mod across;
mod channel;
pub mod control;
mod end;
mod expected;
mod follow;
mod joined;
mod lead;
mod memory;
mod pairs;
mod perftest;
mod plan;
mod purpose;
pub mod rendezvous;
mod roads;
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
use super::events::{Event, Teller};
use super::request::Target;
use super::trouble::Trouble;
use super::verdict::Subject;
use channel::Channel;
use end::End;

pub use expected::expected;
pub use pairs::{Named, port_of};
pub use supervise::{Far, Options, Sort, run, served};

/// A port of a card, and how it is addressed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The card, as in `mlx5_0`.
    pub device: String,
    /// Its port, from 1.
    pub number: u8,
    /// The index of its GID; none for the best one.
    pub gid: Option<u8>,
}

/// By which way a card reaches GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Road {
    /// GPUDirect RDMA by a dma-buf.
    Dmabuf,
    /// GPUDirect RDMA by a peer memory client of the kernel.
    Peermem,
    /// Not at all: a copy engine carries it through pinned memory.
    Staged,
}

impl Road {
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
    /// A GPU's own, by this road; by none, the first one that works.
    Gpu(Target, Option<Road>),
}

/// What an end is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// As results name it: `GPU0 mlx5_0:1`.
    pub subject: String,
    /// Its port.
    pub port: Port,
    /// Its memory.
    pub memory: Memory,
    /// How GPU and card meet, in nvidia-smi's letters.
    pub class: Option<String>,
    /// What the way between GPU and card carries, bytes a second.
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
    /// The other one.
    Follow(Place),
}

/// A connection to prove and to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// As results name it: `GPU0 mlx5_0:1`, or `GPU0 mlx5_0:1 -> GPU1 mlx5_1:1`.
    pub subject: String,
    /// This child's ends.
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
pub fn cards(teller: &mut Teller<'_>) -> io::Result<()> {
    teller.doing("libibverbs.so.1 to list the RDMA devices")?;
    match verbs::device_names() {
        Ok(names) => teller.tell(&Event::Cards(names)),
        Err(error) if error.is_absent() => teller.tell(&Event::Lacking(lacking(&error))),
        Err(error) => {
            let machine = Subject {
                subject: "machine".to_owned(),
                backend: "verbs".to_owned(),
                numa: None,
            };
            teller.result(machine.impossible("rdma", None, true, gpu::sentence(&error)))
        }
    }
}

/// What to install.
fn lacking(error: &verbs::Error) -> String {
    format!(
        "{}: install rdma-core's libibverbs and the provider of the card (Debian, Ubuntu: libibverbs1 and ibverbs-providers; \
         Fedora, RHEL, SUSE: libibverbs)",
        gpu::sentence(error)
    )
}

/// Does this child's part.
pub fn answer(task: &Task, teller: &mut Teller<'_>) -> io::Result<()> {
    joined::count_cpus();
    let done = match &task.part {
        Part::Both(near, far) => both(task, near, far, teller),
        Part::Lead(place) => alone(task, place, false, teller),
        Part::Follow(place) => alone(task, place, true, teller),
    };
    match done {
        Ok(()) => Ok(()),
        // Nobody hears it any more.
        Err(Trouble::Io(error)) => Err(error),
        Err(Trouble::Verbs(error)) if error.is_absent() => teller.tell(&Event::Lacking(lacking(&error))),
        Err(trouble) => {
            let about = Subject {
                subject: task.subject.clone(),
                backend: "verbs".to_owned(),
                numa: None,
            };
            teller.result(about.impossible("rdma", None, true, roads::advised(&trouble)))
        }
    }
}

/// One end, and the other one is another process's.
fn alone(task: &Task, place: &Place, follows: bool, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    let mut control = Channel::to_parent(task.terms.patience);
    let opened = open(task, place, follows, teller);
    let mut end = match opened {
        Ok(end) => end,
        Err(trouble) => return Err(lead::told(None, &mut control, trouble)),
    };
    match follows {
        true => follow::follow(&mut end, task.room, &mut control, Some(teller)),
        false => lead::lead(&mut end, &mut control, task, teller),
    }
}

fn open(task: &Task, place: &Place, far: bool, teller: &mut Teller<'_>) -> Result<End, Trouble> {
    teller.doing(format!("{} to open", place.subject))?;
    let end = End::open(place, task.room, task.terms.patience)?;
    teller.tell(&Event::Joined(Box::new(end.probed(place, far))))?;
    Ok(end)
}

fn both(task: &Task, near: &Place, far: &Place, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    let (mut near_control, mut far_control) = Channel::pair(task.terms.patience);
    let mut near = open(task, near, false, teller)?;
    let mut far = open(task, far, true, teller)?;
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || {
            keep_to_half(false);
            follow::follow(&mut far, task.room, &mut far_control, None)
        });
        keep_to_half(true);
        let led = lead::lead(&mut near, &mut near_control, task, teller);
        // The follower hears that nobody leads it any more.
        drop(near_control);
        let followed = match follower.join() {
            Ok(followed) => followed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        // Where both failed, the one that failed by itself tells more.
        match (led, followed) {
            (Err(trouble), Err(cause)) if trouble.is_of_the_far_end() => Err(cause),
            (Ok(()), Err(cause)) => Err(cause),
            (led, _) => led,
        }
    })
}
