//! What the parent asks of a child, as the JSON of its one argument.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Depth;
use crate::model::{Bdf, IdList};

/// What a child is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// List the GPUs.
    List {
        /// The simulated one instead.
        sim: bool,
        /// How long a step may take.
        patience: Duration,
    },
    /// Probe one.
    Copy(Box<Task>),
}

/// One GPU, from the CPUs of one NUMA node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// How the results name the GPU.
    pub subject: String,
    /// CUDA's number for it; none for the simulated one.
    pub ordinal: Option<u32>,
    /// Its address.
    pub bdf: Option<Bdf>,
    /// The NUMA node it is on.
    pub home: Option<u32>,
    /// What its link carries, bytes a second.
    pub link: Option<u64>,
    /// The NUMA node to copy from, and its CPUs; none to run wherever the scheduler likes.
    pub node: Option<(u32, IdList)>,
    /// The copies through the mapping and nothing else: the rest does not depend on the node.
    pub sweep_only: bool,
    /// How much to do.
    pub depth: Depth,
    /// The backend to use, by its name, and no other.
    pub backend: Option<String>,
    /// The copy kernel to use, by its name, and no other.
    pub kernel: Option<String>,
    /// The sizes to measure; empty for the depth's own.
    pub sizes: Vec<usize>,
    /// How long a step may take beyond its own time.
    pub patience: Duration,
}
