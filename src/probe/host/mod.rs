//! `gdr probe host`: GPUDirect v1. Copies between host and GPU by every sort of host memory, the memory path without it, and the
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

use serde::{Deserialize, Serialize};

pub use expected::expected;
use session::Session;
pub use supervise::{Options, run};

use super::child::bind;
use super::depth::Terms;
use super::events::{Event, Reporter};
use super::failure::StepError;
use super::request::Target;
use crate::model::IdList;

/// One GPU, from the CPUs of one NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub target: Target,
    /// The NUMA node to copy from, and its CPUs; none to run wherever the scheduler likes.
    pub node: Option<(u32, IdList)>,
    /// Copies with pinned memory and nothing else: the rest is told of the GPU's own node.
    pub links_only: bool,
    /// How much, and how long.
    pub terms: Terms,
}

impl Task {
    fn numa(&self) -> Option<u32> {
        self.node.as_ref().map(|node| node.0)
    }
}

pub fn answer(task: &Task, reporter: &mut Reporter<'_>) -> io::Result<()> {
    match probe(task, reporter) {
        Ok(()) => Ok(()),
        // Nobody hears it any more.
        Err(StepError::Io(error)) => Err(error),
        Err(failure) => {
            let about = task.target.about(task.target.cuda(), task.numa());
            reporter.result(about.impossible("host", None, true, gpu::sentence(&failure)))
        }
    }
}

/// A part of the work, and what is impossible where it cannot be done.
type Part = (
    &'static str,
    fn(&Session<'_>, &mut Reporter<'_>) -> Result<(), StepError>,
);

fn probe(task: &Task, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    if let Some((node, cpus)) = &task.node {
        bind(*node, cpus)?;
    }
    reporter.doing("CUDA to open the GPU")?;
    let gpu = task.target.open()?;
    reporter.tell(&Event::Gpu(Box::new(
        task.target.probed(&gpu.device().name),
    )))?;
    let session = Session::new(task, gpu, reporter)?;
    let parts: &[Part] = match task.links_only {
        true => &[("host.pinned", links::pinned_alone)],
        false => &[
            ("host.unified-addressing", unified::run),
            ("validate", integrity::run),
            ("host.links", links::run),
            ("host.kernel", kernels::run),
            ("host.staged", staged::run),
        ],
    };
    for (name, part) in parts {
        match part(&session, reporter) {
            Ok(()) => {}
            Err(failure) if failure.is_the_end() => return Err(failure),
            // What one part lacks, memory say, the next may not need.
            Err(failure) => {
                let why = gpu::sentence(&failure);
                reporter.result(session.about.impossible(name, None, true, why))?;
            }
        }
    }
    Ok(())
}
