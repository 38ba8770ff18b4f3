//! The work of a child of `gdr probe rdma`: one or both ends of a connection.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::settings::{RelaxedOrdering, Settings};
use crate::model::{RdmaPath, VirtualFunction};
use crate::probe::scope::Binding;
use crate::probe::target::Target;
use crate::probe::terms::Terms;

/// A port of a NIC, and how it is addressed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The NIC, as in `mlx5_0`.
    pub device: String,
    /// Its port, from 1.
    pub number: u8,
    /// The index of its GID; none for the best one.
    pub gid: Option<u8>,
    /// The index of its P_Key.
    pub pkey_index: u16,
    /// It is the simulated NIC's.
    pub simulated: bool,
}

/// Memory path between a NIC and GPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryPath {
    /// GPUDirect RDMA by the Data Direct function of the NIC (ConnectX-8), for GPUs with NVLink-C2C.
    DataDirect,
    /// GPUDirect RDMA with dma-buf over PCI Express, for GPUs with NVLink-C2C.
    DmaBufPcie,
    /// GPUDirect RDMA with dma-buf, over the driver's choice of path.
    DmaBuf,
    /// GPUDirect RDMA with nvidia-peermem.
    Peermem,
    /// Copies through pinned memory, without GPUDirect RDMA.
    Staged,
    /// As Staged, through pageable memory, which CUDA copies a second time.
    #[value(skip)]
    Pageable,
    /// The NIC accesses the host memory that stands for a simulated GPU's.
    #[value(skip)]
    Simulated,
}

impl MemoryPath {
    /// In the names of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pageable => "pageable",
            Self::Simulated => "simulated",
            path => path.direct().map_or("staged", verbs::MemoryPath::name),
        }
    }

    /// Copies carry the bytes between the NIC's buffer and the GPU.
    pub fn is_staged(self) -> bool {
        matches!(self, Self::Staged | Self::Pageable)
    }

    /// How the NIC accesses a GPU's memory itself; none if it does not.
    pub fn direct(self) -> Option<verbs::MemoryPath> {
        Some(match self {
            Self::DataDirect => verbs::MemoryPath::DataDirect,
            Self::DmaBufPcie => verbs::MemoryPath::DmabufPcie,
            Self::DmaBuf => verbs::MemoryPath::Dmabuf,
            Self::Peermem => verbs::MemoryPath::Peermem,
            Self::Staged | Self::Pageable | Self::Simulated => return None,
        })
    }

    /// Those in which the NIC accesses GPU memory itself.
    pub fn of(direct: verbs::MemoryPath) -> Self {
        match direct {
            verbs::MemoryPath::DataDirect => Self::DataDirect,
            verbs::MemoryPath::DmabufPcie => Self::DmaBufPcie,
            verbs::MemoryPath::Dmabuf => Self::DmaBuf,
            verbs::MemoryPath::Peermem => Self::Peermem,
        }
    }
}

/// The memory under test of one end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Ordinary pages of the host.
    #[default]
    Host,
    /// Huge pages of the host.
    Huge,
    /// Pages that a GPU's driver pinned.
    Pinned(Target),
    /// GPU memory by this memory path, or by the first one that works.
    Gpu(Target, Option<MemoryPath>),
}

/// Port and memory of an end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LocalEnd {
    /// As results name it: `GPU0 mlx5_0:1`.
    pub subject: String,
    pub port: Port,
    pub memory: Memory,
    /// A curve of `gdr probe transfer`; `None` for all test cases.
    pub curve: Option<Curve>,
    /// Path class of GPU and NIC, as nvidia-smi names it.
    pub class: Option<String>,
    /// Bandwidth of the path between GPU and NIC, bytes per second.
    pub path: Option<u64>,
    /// The path that the topology expects between them.
    pub expected: Option<RdmaPath>,
    /// Bandwidth of the port, bytes per second; of one port of a bond, which is what a queue pair has.
    pub rate: Option<u64>,
    /// Ports of the bond; 1 or 0 without one.
    #[serde(default)]
    pub bonded: u32,
    /// The NUMA node whose CPUs and memory the end uses; none if it is not bound.
    pub node: Option<Binding>,
    /// The kernel driver of the NIC's function; none if unknown.
    pub driver: Option<String>,
    /// The NIC's PCI function and the bridges above it.
    pub functions: Vec<String>,
    pub virtual_function: Option<VirtualFunction>,
    /// PCI Express allows the NIC to relax the order of its writes; none if unknown.
    pub relaxed_ordering: Option<bool>,
}

impl LocalEnd {
    /// Bandwidth of all ports of a bond together, bytes per second; of the port without one.
    pub fn rate_of_bond(&self) -> Option<u64> {
        self.rate.map(|rate| rate * u64::from(self.bonded.max(1)))
    }
}

/// The ends that one child has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Both, on this machine: the client first.
    Both(LocalEnd, Box<LocalEnd>),
    /// The client; the parent is connected to the server.
    #[serde(rename = "lead")]
    Client(LocalEnd),
    #[serde(rename = "follow")]
    Server(LocalEnd),
}

impl Task {
    /// The curve of `gdr probe transfer` that it measures.
    pub fn curve(&self) -> Option<Curve> {
        match &self.part {
            Part::Both(place, _) | Part::Client(place) | Part::Server(place) => place.curve,
        }
    }
}

/// How much of a connection is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    Whole,
    /// The bandwidth of writes of the largest message.
    OneFigure,
    /// A link of a fleet: its bandwidth in both directions and its latency.
    Link,
    /// What a NUMA node changes: the latency of the smallest message, the bandwidth of the largest, and the message rate.
    NodeCost,
}

/// A connection to prove and to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// As results name it: `GPU0 mlx5_0:1`, or `GPU0 mlx5_0:1 -> GPU1 mlx5_1:1`.
    pub subject: String,
    pub part: Part,
    /// Bandwidth of the connection, bytes per second; none if unknown.
    pub limit: Option<u64>,
    /// The largest message: each end has room for two.
    pub room: usize,
    /// Queue pairs that move the bandwidth.
    pub queue_pairs: u32,
    /// How packets are addressed and retried; the server uses the client's.
    pub settings: Settings,
    pub relaxed_ordering: RelaxedOrdering,
    /// Also with host memory that is registered for on-demand paging.
    pub on_demand: bool,
    pub extent: Extent,
    /// How much, and how long.
    pub terms: Terms,
}

impl Task {
    /// The share of a connection's limit that its queue pairs can reach: with RoCE LAG each of them uses one port of the bond.
    pub fn share_of_bond(&self, limit: u64) -> f64 {
        let places = match &self.part {
            Part::Both(local, remote) => vec![local, remote.as_ref()],
            Part::Client(place) | Part::Server(place) => vec![place],
        };
        let of_place = |place: &LocalEnd| {
            let ports = place.bonded.max(1).min(self.queue_pairs.max(1));
            Some(place.rate? as f64 * f64::from(ports) / limit.max(1) as f64)
        };
        let bonds = places.into_iter().filter(|place| place.bonded > 1);
        bonds.filter_map(of_place).fold(1.0, f64::min)
    }
}
