//! `gdr probe async`: GPUDirect Async. What a stream does in order, how soon it sees a word that the CPU writes, and a NIC's queues
//! that it drives: doorbells it rings and completions it waits for, with kernels between; and a second process with streams and queues of its
//! own on the same GPU, to which messages go and from which they come back.
//!
//! [`run`] is the parent's side, a child for each GPU, and then two; [`answer`] is the child's.

mod doorbell;
mod expected;
mod loopback;
mod order;
mod pingpong;
mod plan;
mod poll;
mod queues;
mod register;
mod session;
mod supervise;
#[cfg(test)]
mod tests;

use std::io;

use serde::{Deserialize, Serialize};

pub use expected::expected;
use pingpong::Which;
use session::Session;
pub use supervise::{Behind, By, Options, run};

use super::depth::Terms;
use super::events::{Event, Reporter};
use super::failure::StepError;
use super::rdma::Port;
use super::request::Target;

/// Who is behind the queues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HcaChoice {
    /// The software HCA: a thread of this process.
    Sim,
    /// This port of a NIC, whose queues the GPU drives itself.
    Mlx5(Port),
    /// A thread of this process that posts to this port.
    Proxy(Port),
}

impl HcaChoice {
    /// In the names of backends.
    fn name(&self) -> &'static str {
        match self {
            Self::Sim => "sim-hca",
            Self::Mlx5(_) => "mlx5",
            Self::Proxy(_) => "proxy",
        }
    }

    /// Which port it is, and who drives it.
    fn note(&self) -> Option<String> {
        let said = |Port { device, number, .. }: &Port, words: &str| {
            Some(words.replace("PORT", &format!("{device}:{number}")))
        };
        match self {
            Self::Sim => None,
            Self::Mlx5(port) => said(
                port,
                "The HCA is PORT itself: the GPU writes its doorbells and reads its completions.",
            ),
            Self::Proxy(port) => said(
                port,
                "The HCA is a proxy: a thread of the CPU reads the doorbells, posts what they ask for to PORT, and writes the completions.",
            ),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub target: Target,
    /// Who is behind the queues; without one, what needs queues is left out.
    pub hca: Option<HcaChoice>,
    /// How much, and how long.
    pub terms: Terms,
    /// Of the two processes of `async.pingpong` this one, and nothing else.
    pub pingpong: Option<Which>,
}

pub fn answer(task: &Task, reporter: &mut Reporter<'_>) -> io::Result<()> {
    if let Some(which) = task.pingpong {
        return pingpong::answer(which, task, reporter);
    }
    match probe(task, reporter) {
        Ok(()) => Ok(()),
        // Nobody hears it any more.
        Err(StepError::Io(error)) => Err(error),
        Err(failure) => {
            let about = task.target.about(task.target.cuda(), None);
            reporter.result(about.impossible("async", None, true, gpu::sentence(&failure)))
        }
    }
}

/// A part of the work, and what is impossible where it cannot be done.
type Part = (
    &'static str,
    fn(&mut Session<'_>, &mut Reporter<'_>) -> Result<(), StepError>,
);

fn probe(task: &Task, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing("CUDA to open the GPU")?;
    let gpu = task.target.open()?;
    let mut session = Session::new(task, gpu, reporter)?;
    reporter.tell(&Event::Gpu(Box::new(session.probed())))?;
    // Without its doorbell nothing of the NIC is.
    let has_queues = task.hca.is_some() && register::run(&session, reporter)?;
    let parts: &[Part] = match has_queues {
        false => &[("validate.stream", order::run), ("async.poll", poll::run)],
        true => &[
            ("validate.stream", order::run),
            ("async.poll", poll::run),
            ("async.doorbell", doorbell::run),
            ("async.loopback", loopback::run),
        ],
    };
    for (name, part) in parts {
        match part(&mut session, reporter) {
            Ok(()) => {}
            Err(failure) if failure.is_the_end() => return Err(failure),
            // What one part lacks the next may not need.
            Err(failure) => {
                let why = gpu::sentence(&failure);
                reporter.result(session.about.impossible(name, None, true, why))?;
            }
        }
    }
    Ok(())
}
