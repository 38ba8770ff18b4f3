//! The task of a child of `gdr probe host`.

use serde::{Deserialize, Serialize};

use crate::probe::scope::Binding;
use crate::probe::target::Target;
use crate::probe::terms::Terms;

/// One GPU, from the CPUs of one NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub target: Target,
    /// The NUMA node to bind to, and its CPUs; `None`: not bound.
    pub node: Option<Binding>,
    /// Measure copies with pinned memory only. The child of the GPU's own node measures the rest.
    pub links_only: bool,
    pub terms: Terms,
}

impl Task {
    pub fn numa(&self) -> Option<u32> {
        self.node.as_ref().map(|node| node.0)
    }
}
