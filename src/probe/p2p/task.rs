//! The work of a child of `gdr probe p2p`: several GPUs, and what is done with them unit by unit.

use serde::{Deserialize, Serialize};

use crate::probe::depth::Terms;
use crate::probe::machine::Between;
use crate::probe::target::Target;

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
    pub fn gpu(&self, number: usize) -> &str {
        self.gpus.get(number).map_or("", |gpu| &gpu.subject)
    }

    /// What results call a pair.
    pub fn arrow(&self, pair: &Pair) -> String {
        arrow(self.gpu(pair.from), self.gpu(pair.to))
    }

    /// What a unit is about, as results name it.
    pub fn subject(&self, unit: Unit) -> String {
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

    pub fn backend(&self) -> &'static str {
        self.gpus.first().map_or("cuda", Target::cuda)
    }
}

/// As in `GPU0 -> GPU1`.
pub fn arrow(from: &str, to: &str) -> String {
    let short = |subject: &str| subject.split(' ').next().unwrap_or_default().to_owned();
    format!("{} -> {}", short(from), short(to))
}
