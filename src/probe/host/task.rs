//! The work of a child of `gdr probe host`.

use serde::{Deserialize, Serialize};

use crate::probe::depth::Terms;
use crate::probe::scope::Binding;
use crate::probe::target::Target;

/// One GPU, from the CPUs of one NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub target: Target,
    /// The NUMA node to copy from, and its CPUs; none to run wherever the scheduler likes.
    pub node: Option<Binding>,
    /// Copies with pinned memory and nothing else: the rest is told of the GPU's own node.
    pub links_only: bool,
    /// How much, and how long.
    pub terms: Terms,
}

impl Task {
    /// The number of that node.
    pub fn numa(&self) -> Option<u32> {
        self.node.as_ref().map(|node| node.0)
    }
}
