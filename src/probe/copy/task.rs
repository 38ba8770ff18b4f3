//! The task of a child of `gdr probe copy`.

use serde::{Deserialize, Serialize};

use crate::probe::depth::Terms;
use crate::probe::scope::Binding;
use crate::probe::target::Target;

/// One GPU, from the CPUs of one NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub target: Target,
    /// The NUMA node to bind to, and its CPUs; `None`: not bound.
    pub node: Option<Binding>,
    /// Measure copies through the mapping only: nothing else depends on the node.
    pub sweep_only: bool,
    /// The only backend to use, by name.
    pub backend: Option<String>,
    pub terms: Terms,
}
