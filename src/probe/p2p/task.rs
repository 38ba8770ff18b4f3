//! The task of a child of `gdr probe p2p`: several GPUs, in units that another child can continue after.

use serde::{Deserialize, Serialize};

use crate::probe::machine::GpuPath;
use crate::probe::target::Target;
use crate::probe::terms::Terms;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub gpus: Vec<Target>,
    /// The ordered pairs of `gpus`.
    pub pairs: Vec<OrderedPair>,
    pub units: Vec<Unit>,
    pub terms: Terms,
}

/// An ordered pair: indices into [`Task::gpus`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedPair {
    /// The GPU whose engines access memory.
    pub from: usize,
    /// The GPU whose memory is accessed.
    pub to: usize,
    pub path: GpuPath,
}

/// A part of a task. After a failure another child continues with the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// One GPU by itself: an index into [`Task::gpus`].
    Alone(usize),
    /// An index into [`Task::pairs`].
    Pair(usize),
    /// The same pair, as GPUDirect v2 of `gdr probe transfer`.
    Curve(usize),
    /// One GPU writes to all others at once.
    OneToAll(usize),
    /// All others write to one GPU at once.
    AllToOne(usize),
    /// All ordered pairs at once.
    All,
}

impl Task {
    /// The name of a GPU in results.
    pub fn gpu(&self, number: usize) -> &str {
        self.gpus.get(number).map_or("", |gpu| &gpu.subject)
    }

    /// The name of a pair in results.
    pub fn arrow(&self, pair: &OrderedPair) -> String {
        arrow(self.gpu(pair.from), self.gpu(pair.to))
    }

    /// The subject of a unit's results.
    pub fn subject(&self, unit: Unit) -> String {
        match unit {
            Unit::Alone(gpu) | Unit::OneToAll(gpu) | Unit::AllToOne(gpu) => {
                self.gpu(gpu).to_owned()
            }
            Unit::Pair(pair) | Unit::Curve(pair) => {
                self.pairs.get(pair).map_or_else(String::new, |pair| self.arrow(pair))
            }
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
