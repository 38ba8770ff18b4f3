//! `gdr probe rdma`: memory that a card moves, verified where it arrived, and measured as perftest measures.
//!
//! Two ends each have a card's port, memory under test and a connection, and agree over a [`control::Control`] on each step. One
//! of them leads: it says what comes next, and tells the results. The ends are two threads of one child, on one port or two, or
//! two processes on two machines; neither knows which.

pub mod control;
mod end;
mod lead;
mod plan;
pub mod rendezvous;
mod stream;
#[cfg(test)]
mod tests;
mod turns;

use std::io;

use serde::{Deserialize, Serialize};

use super::depth::Terms;
use super::events::Teller;
use super::trouble::Trouble;
use super::verdict::Subject;
use control::Here;
use end::End;

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

/// Of what the memory under test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Ordinary pages of the host.
    Host,
    /// Huge pages of the host.
    Huge,
}

/// Two ends on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The end that leads.
    pub near: Port,
    /// The other one; may be the same port.
    pub far: Port,
    /// The memory of both.
    pub sort: Sort,
    /// How much, and how long.
    pub terms: Terms,
}

impl Task {
    /// As in `mlx5_0:1`, or `mlx5_0:1 -> mlx5_1:1`.
    fn subject(&self) -> String {
        let name = |port: &Port| format!("{}:{}", port.device, port.number);
        match (name(&self.near), name(&self.far)) {
            (near, far) if near == far => near,
            (near, far) => super::p2p::arrow(&near, &far),
        }
    }
}

/// Probes between two ends of this machine.
pub fn answer(task: &Task, teller: &mut Teller<'_>) -> io::Result<()> {
    let about = Subject {
        subject: task.subject(),
        backend: "verbs".to_owned(),
        numa: None,
    };
    match both(task, &about, teller) {
        Ok(()) => Ok(()),
        // Nobody hears it any more.
        Err(Trouble::Io(error)) => Err(error),
        Err(trouble) => teller.result(about.impossible("rdma", None, true, gpu::sentence(&trouble))),
    }
}

fn both(task: &Task, about: &Subject, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    teller.doing(format!("{} to open", task.subject()))?;
    let sizes = task.terms.rdma_sizes();
    let room = sizes.iter().copied().max().unwrap_or(1);
    let (mut near_control, mut far_control) = Here::pair(task.terms.patience);
    let mut near = End::open(&task.near, task.sort, room, task.terms.patience)?;
    let mut far = End::open(&task.far, task.sort, room, task.terms.patience)?;
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || lead::follow(&mut far, &mut far_control));
        let led = lead::lead(&mut near, &mut near_control, task, about, teller);
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
