//! What is known of the machine before a probe touches anything: its GPUs, RDMA devices and NUMA nodes, and the paths between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::events::Listed;
use crate::model::{Bdf, Host, NumaNode};

/// What is known of the machine before anything is touched.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The header of the report.
    pub host: Host,
    /// Its GPUs, as `gdr topo` numbers them.
    pub gpus: Vec<Place>,
    pub nodes: Vec<NumaNode>,
    /// The ways from one GPU to another, as the topology and NVML have them.
    pub ways: BTreeMap<(Bdf, Bdf), Between>,
    pub nics: Vec<ProbedNic>,
}

impl Machine {
    /// Its GPUs as CUDA would list them, where CUDA is not asked.
    pub fn listed(&self) -> Vec<Listed> {
        let places = self.gpus.iter().zip(0..);
        places
            .map(|(place, ordinal)| Listed {
                ordinal,
                name: place.label.clone(),
                uuid: String::new(),
                bdf: Some(place.bdf),
                simulated: false,
            })
            .collect()
    }

    /// What is known of the way from one GPU to another.
    pub fn way(&self, a: Option<Bdf>, b: Option<Bdf>) -> Option<&Between> {
        self.ways.get(&(a?, b?))
    }
}

/// Where a GPU is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As in `GPU0`.
    pub name: String,
    /// What it is, where the machine says so.
    pub label: String,
    pub bdf: Bdf,
    /// The NUMA node it is on.
    pub numa: Option<u32>,
    /// What its link carries at its best, bytes a second.
    pub link: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedNic {
    /// As in `mlx5_0`.
    pub name: String,
    /// Its address; none of software over no function.
    pub bdf: Option<Bdf>,
    /// It is software over a netdev.
    pub software: bool,
    /// Its ports that are up: number, and bytes a second in one direction where that is known.
    pub ports: Vec<(u8, Option<u64>)>,
    /// The GPUs that it is the best one of.
    pub best_of: Vec<Bdf>,
    /// How it meets each GPU: in nvidia-smi's letters, and what the narrowest link between them carries.
    pub reaches: Vec<(Bdf, Option<String>, Option<u64>)>,
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
