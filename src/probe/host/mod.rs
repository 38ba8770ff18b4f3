//! `gdr probe host`: GPUDirect v1. Copies between host and GPU by every sort of host memory, the road without it, and the
//! pipeline of MPI libraries; every way verified.
//!
//! [`run`] is the parent's side, a child for each GPU and NUMA node; [`answer`] is the child's.

mod expected;
mod integrity;
mod kernels;
mod links;
mod plan;
mod session;
mod staged;
mod supervise;
#[cfg(test)]
mod tests;
mod unified;

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use expected::expected;
use session::Session;
pub use supervise::{Options, run};

use super::child::bind;
use super::depth::Depth;
use super::events::{Event, Teller};
use super::request::Target;
use super::trouble::Trouble;
use crate::model::IdList;

/// One GPU, from the CPUs of one NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The GPU.
    pub target: Target,
    /// The NUMA node to copy from, and its CPUs; none to run wherever the scheduler likes.
    pub node: Option<(u32, IdList)>,
    /// Copies with pinned memory and nothing else: the rest is told of the GPU's own node.
    pub links_only: bool,
    /// How much to do.
    pub depth: Depth,
    /// The sizes to measure; empty for the depth's own.
    pub sizes: Vec<usize>,
    /// How long a step may take beyond its own time.
    pub patience: Duration,
}

impl Task {
    fn numa(&self) -> Option<u32> {
        self.node.as_ref().map(|node| node.0)
    }
}

/// Probes one GPU.
pub fn answer(task: &Task, teller: &mut Teller<'_>) -> io::Result<()> {
    match probe(task, teller) {
        Ok(()) => Ok(()),
        // Nobody hears it any more.
        Err(Trouble::Io(error)) => Err(error),
        Err(trouble) => {
            let about = task.target.about(task.target.cuda(), task.numa());
            teller.result(about.impossible("host", None, true, gpu::sentence(&trouble)))
        }
    }
}

/// A part of the work.
type Part = fn(&mut Session<'_>, &mut Teller<'_>) -> Result<(), Trouble>;

fn probe(task: &Task, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    if let Some((node, cpus)) = &task.node {
        bind(*node, cpus)?;
    }
    teller.doing("CUDA to open the GPU")?;
    let gpu = task.target.open()?;
    teller.tell(&Event::Gpu(Box::new(task.target.probed(&gpu.device().name))))?;
    let mut session = Session::new(task, gpu, teller)?;
    let parts: &[Part] = match task.links_only {
        true => &[links::pinned_alone],
        false => &[unified::run, integrity::run, links::run, kernels::run, staged::run],
    };
    parts.iter().try_for_each(|part| part(&mut session, teller))
}
