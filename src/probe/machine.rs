//! The machine as collected before a probe touches hardware: GPUs, RDMA devices, NUMA nodes and the paths between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::events::Listed;
use crate::model::{Bdf, Host, NumaNode, RdmaPath, VirtualFunction};

#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The header of the report.
    pub host: Host,
    /// Its GPUs, as `gdr topo` numbers them.
    pub gpus: Vec<LocatedGpu>,
    pub nodes: Vec<NumaNode>,
    /// The paths from one GPU to another, of the PCI topology and NVML.
    pub paths: BTreeMap<(Bdf, Bdf), GpuPath>,
    pub nics: Vec<ProbedNic>,
}

impl Machine {
    /// Its GPUs as CUDA would list them.
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

    pub fn path(&self, from: Option<Bdf>, to: Option<Bdf>) -> Option<&GpuPath> {
        self.paths.get(&(from?, to?))
    }
}

/// A GPU's name and position in the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedGpu {
    /// As in `GPU0`.
    pub name: String,
    /// The model, if known.
    pub label: String,
    pub bdf: Bdf,
    /// The NUMA node it is on.
    pub numa: Option<u32>,
    /// Peak rate of its PCIe link, bytes/s.
    pub link: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedNic {
    /// As in `mlx5_0`.
    pub name: String,
    /// `None` for a software device without a PCI function.
    pub bdf: Option<Bdf>,
    /// The kernel driver of its PCI function, as in `mlx5_core`; none if unknown.
    pub driver: Option<String>,
    /// Software over a netdev (rxe, siw).
    pub software: bool,
    /// The NUMA node it is on.
    pub numa: Option<u32>,
    /// The active ports: number, and rate in one direction, bytes/s.
    pub ports: Vec<(u8, Option<u64>)>,
    /// Ports of the bond behind an Ethernet port; 1 without a bond, 0 for a device that sysfs does not show.
    pub bonded: u32,
    /// The GPUs whose nearest NIC it is.
    pub best_of: Vec<Bdf>,
    /// Path to each GPU.
    pub reaches: Vec<NicPath>,
    /// Its PCI function and the bridges above it.
    pub functions: Vec<String>,
    pub virtual_function: Option<VirtualFunction>,
    /// PCI Express allows it to relax the order of its writes; none if unknown.
    pub relaxed_ordering: Option<bool>,
}

/// The path from a NIC to a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicPath {
    pub gpu: Bdf,
    /// PCIe path class in nvidia-smi's letters.
    pub class: Option<String>,
    /// Rate of the narrowest PCIe link of the path, bytes/s; none if the NIC takes another path.
    pub pci: Option<u64>,
    /// The path that it is expected to take.
    pub expected: Option<RdmaPath>,
}

/// The path from one GPU to another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuPath {
    /// Number of NVLinks, if known.
    pub nvlinks: Option<u32>,
    /// Rate of the narrowest PCIe link of the path, bytes/s.
    pub pci: Option<u64>,
    /// PCIe path class in nvidia-smi's letters.
    pub class: Option<String>,
    /// NVML's status of each peer-to-peer capability.
    pub nvml: BTreeMap<String, String>,
}
