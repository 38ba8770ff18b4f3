//! The devices of a machine and the paths between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AcsBits, Bdf, Fact, IdList, LinkState, RootBus, VirtualFunction};

/// Kind of a row of the matrix.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An NVIDIA GPU.
    Gpu,
    /// An RDMA device.
    Nic,
    /// An NVMe controller.
    Nvme,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Name, as in `GPU0`, `NIC1`, `NVME0`.
    pub name: String,
    /// Kind of device.
    pub kind: Kind,
    /// PCI function; none for a software device over a netdev without one.
    pub bdf: Option<Bdf>,
    /// Model of a GPU, or name of the RDMA device or controller.
    pub label: String,
    /// `label` is the name that programs use; a NIC in a list of PCI functions has its address instead.
    pub named: bool,
    /// `GPU-…`, if known.
    pub uuid: Option<String>,
    /// NUMA node; none if the kernel reports −1.
    pub numa: Fact<Option<u32>>,
    /// Nearby CPUs.
    pub cpus: Fact<IdList>,
    /// NUMA nodes of those CPUs.
    pub nodes: Fact<IdList>,
    /// NUMA node of the memory of a coherent GPU.
    pub memory_node: Option<u32>,
    /// Its memory is coherent with CPU memory over NVLink-C2C.
    pub coherent: bool,
    /// A GPU whose memory is the CPU's.
    pub integrated: bool,
    /// A GPU that is a module of a board, not a card.
    pub module: bool,
    /// Number of active NVLinks; unknown without NVML.
    pub nvlinks: Fact<u32>,
    /// The NIC is a virtual function.
    pub virtual_function: Option<VirtualFunction>,
    /// A software device over a netdev.
    pub software: bool,
    /// A port is up; none for devices without ports.
    pub active: Option<bool>,
}

/// Path class in nvidia-smi's letters, nearest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum PciClass {
    /// At most one bridge.
    #[serde(rename = "PIX")]
    Pix,
    /// Several bridges, without the host bridge.
    #[serde(rename = "PXB")]
    Pxb,
    /// Through the host bridge.
    #[serde(rename = "PHB")]
    Phb,
    /// Between host bridges of one NUMA node.
    #[serde(rename = "NODE")]
    Node,
    /// Between host bridges whose NUMA nodes are unknown.
    #[serde(rename = "NODE or SYS")]
    NodeOrSys,
    /// Across the interconnect between NUMA nodes.
    #[serde(rename = "SYS")]
    Sys,
}

impl PciClass {
    /// nvidia-smi's letters; `NodeOrSys` is gdr's own.
    pub fn letters(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::NodeOrSys => "NODE or SYS",
            Self::Sys => "SYS",
        }
    }
}

/// A pair of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPair {
    /// PCI path class; unknown if a location is unknown.
    pub pci: Fact<PciClass>,
    /// Number of NVLinks between them; unknown without NVML.
    pub nvlinks: Fact<u32>,
}

/// How a NIC is expected to reach a GPU's memory.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RdmaPath {
    /// By its Data Direct function, over PCI Express, past the CPU.
    DataDirect,
    /// Through the CPU and NVLink-C2C.
    C2c,
    /// Over PCI Express.
    Pcie,
}

impl RdmaPath {
    /// In words.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::DataDirect => "Data Direct",
            Self::C2c => "NVLink-C2C",
            Self::Pcie => "PCI Express",
        }
    }
}

/// The best partners of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// Index of the row.
    pub row: usize,
    /// The nearest partners, all equally near. With more rows than gdr compares in pairs, only the chosen one.
    pub best: Vec<usize>,
    /// The partner to use; equally near ones are distributed evenly.
    pub pick: Option<usize>,
    /// The NICs to give NCCL for a GPU, the partner first: as many of the nearest ones as it would use. Without NCCL_IB_HCA it may choose
    /// others of them: `topo --nccl` says which. Empty for NICs.
    pub nccl: Vec<usize>,
    /// A nearer NIC that has no active port.
    pub nearer_down: Option<usize>,
    /// Rating of the pair.
    pub verdict: Verdict,
    /// The reason, as a sentence.
    pub reason: String,
    /// Which device to move where, if the rating is bad.
    pub advice: Option<String>,
}

/// Rating of a pair for GPUDirect RDMA.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Below one switch: full bandwidth.
    Good,
    /// Through one host bridge: full bandwidth on most machines.
    LikelyGood,
    /// Between host bridges or sockets: slow.
    Bad,
    /// The location of a device is unknown, or there is no partner.
    Unknown,
}

impl Verdict {
    /// In words.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::LikelyGood => "likely good",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        }
    }
}

/// The path from one row to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// Name of the first row.
    pub from: String,
    /// Name of the last row.
    pub to: String,
    pub class: Fact<PciClass>,
    /// Devices on the path, in order, including both ends.
    pub hops: Vec<Hop>,
    /// Where the two legs meet: a bridge, or the root complex.
    pub meeting: Meeting,
    /// The narrowest link; unknown if a link on the path is unknown.
    pub bottleneck: Fact<Bottleneck>,
}

/// Where the legs of a path meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Meeting {
    /// Below the root complex, at this bridge.
    Bridge(Bdf),
    HostBridge(RootBus),
    /// Between two host bridges.
    Interconnect(RootBus, RootBus),
}

/// One device on a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// PCI address.
    pub bdf: Bdf,
    /// Role: endpoint, root port, upstream port, downstream port, bridge.
    pub role: String,
    /// The link above it; none inside a switch or a root complex.
    pub link: Fact<Option<LinkState>>,
    /// ACS control bits; none without the capability.
    pub acs: Fact<Option<AcsBits>>,
}

/// The narrowest link of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// Device below that link.
    pub below: Bdf,
    /// Bytes per second in one direction, before packet headers.
    pub bytes_per_second: u64,
    /// Other rows that use the same link to reach the root.
    pub shared_with: Vec<String>,
}
