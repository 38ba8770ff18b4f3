//! `gdr probe p2p`: GPUDirect v2. Copies and kernels of each GPU that reach each other one's memory, with peer access and
//! without, alone and all at once; every way verified.
//!
//! [`run`] is the parent's side; [`answer`] is the child's, which goes through the units of its task. A unit that takes the
//! contexts with it ends its child, and another goes on with the rest.

mod cluster;
mod expected;
mod integrity;
mod many;
mod pair;
mod plan;
mod supervise;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use cluster::Cluster;
pub use expected::expected;
pub use supervise::{Options, run};

use super::depth::Terms;
use super::events::{Event, Reporter};
use super::failure::StepError;
use super::request::Target;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub gpus: Vec<Target>,
    /// The ordered pairs of them.
    pub pairs: Vec<Pair>,
    /// What is to be done, in order.
    pub units: Vec<Unit>,
    /// How much, and how long.
    pub terms: Terms,
}

/// An ordered pair, by the numbers of its GPUs in the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// The GPU that reaches.
    pub from: usize,
    /// The GPU that is reached.
    pub to: usize,
    /// What is known of the way.
    pub between: Between,
}

/// What is known of the way between two GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Between {
    /// NVLinks between them; none where that is not known.
    pub nvlinks: Option<u32>,
    /// What the narrowest link of the way over PCI Express carries, bytes a second.
    pub pci: Option<u64>,
    /// How they meet over PCI Express, in nvidia-smi's letters.
    pub class: Option<String>,
    /// What NVML says of each capability, in words.
    pub nvml: BTreeMap<String, String>,
}

/// A part of a task that another child can go on after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// One GPU by itself, by its number in the task.
    Alone(usize),
    /// An ordered pair, by its number in the task.
    Pair(usize),
    /// One GPU writes to all others at once.
    OneToAll(usize),
    /// All others write to one GPU at once.
    AllToOne(usize),
    /// All ordered pairs at once.
    All,
}

impl Task {
    /// What results call a GPU.
    fn gpu(&self, number: usize) -> &str {
        self.gpus.get(number).map_or("", |gpu| &gpu.subject)
    }

    /// What results call a pair.
    fn arrow(&self, pair: &Pair) -> String {
        arrow(self.gpu(pair.from), self.gpu(pair.to))
    }

    /// What a unit is about, as results name it.
    fn subject(&self, unit: Unit) -> String {
        match unit {
            Unit::Alone(gpu) | Unit::OneToAll(gpu) | Unit::AllToOne(gpu) => {
                self.gpu(gpu).to_owned()
            }
            Unit::Pair(pair) => self
                .pairs
                .get(pair)
                .map_or_else(String::new, |pair| self.arrow(pair)),
            Unit::All => "all GPUs".to_owned(),
        }
    }

    fn backend(&self) -> &'static str {
        self.gpus.first().map_or("cuda", Target::cuda)
    }
}

/// As in `GPU0 -> GPU1`.
pub fn arrow(from: &str, to: &str) -> String {
    let short = |subject: &str| subject.split(' ').next().unwrap_or_default().to_owned();
    format!("{} -> {}", short(from), short(to))
}

/// Goes through the units.
pub fn answer(task: &Task, reporter: &mut Reporter<'_>) -> io::Result<()> {
    let mut cluster = Cluster::new(task);
    reporter.expect_units(task.units.len() as u64);
    for unit in task.units.iter().copied() {
        let subject = task.subject(unit);
        reporter.unit(subject)?;
        let done = match unit {
            Unit::Alone(gpu) => cluster.alone(gpu, reporter),
            Unit::Pair(pair) => pair::run(&mut cluster, pair, reporter),
            Unit::OneToAll(gpu) => many::one_to_all(&mut cluster, gpu, reporter),
            Unit::AllToOne(gpu) => many::all_to_one(&mut cluster, gpu, reporter),
            Unit::All => many::all(&mut cluster, reporter),
        };
        match done {
            Ok(()) => {}
            // Nobody hears it any more.
            Err(StepError::Io(error)) => return Err(error),
            Err(failure) => {
                let lost = failure.is_lost();
                let mut why = gpu::sentence(&failure);
                if lost {
                    why.push_str("; the contexts of this process are lost with it: look for Xid lines in dmesg");
                }
                let about = cluster.about(unit);
                reporter.result(about.impossible(cluster.doing(), None, true, why))?;
                if lost {
                    return reporter.tell(&Event::Lost);
                }
            }
        }
    }
    Ok(())
}
