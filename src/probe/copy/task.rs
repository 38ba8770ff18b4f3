//! What a child that probes one GPU's mapping is to do.

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
    /// The copies through the mapping and nothing else: the rest does not depend on the node.
    pub sweep_only: bool,
    /// The backend to use, by its name, and no other.
    pub backend: Option<String>,
    /// How much, and how long.
    pub terms: Terms,
}
