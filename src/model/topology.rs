//! The machine's devices and how each reaches each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AcsBits, Bdf, Fact, IdList, LinkState, RootBus};

/// What a row of the matrix is.
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
    /// As in `GPU0`, `NIC1`, `NVME0`.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its PCI function; none for a software device over a netdev that has none.
    pub bdf: Option<Bdf>,
    /// Its model, or the RDMA device's or controller's name.
    pub label: String,
    /// Whether `label` is the name by which programs know it; a NIC of a list of PCI functions has its address instead.
    pub named: bool,
    /// `GPU-…`, where known.
    pub uuid: Option<String>,
    /// NUMA node of the device; none where the kernel says −1.
    pub numa: Fact<Option<u32>>,
    /// CPUs near it.
    pub cpus: Fact<IdList>,
    /// NUMA nodes of those CPUs.
    pub nodes: Fact<IdList>,
    /// NUMA node of a coherent GPU's own memory.
    pub memory_node: Option<u32>,
    /// Its memory is coherent with the CPU's over NVLink-C2C.
    pub coherent: bool,
    /// Active NVLinks; unknown where NVML did not tell.
    pub nvlinks: Fact<u32>,
    /// It is a virtual function of this physical one.
    pub physical_function: Option<Bdf>,
    /// It is software over a netdev, not a NIC.
    pub software: bool,
    /// A port of it is up; none for what has no ports.
    pub active: Option<bool>,
}

/// How two devices meet, nearest first: nvidia-smi's classes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum PciClass {
    /// At most one bridge between them.
    #[serde(rename = "PIX")]
    Pix,
    /// Several bridges, not the host bridge.
    #[serde(rename = "PXB")]
    Pxb,
    /// The host bridge.
    #[serde(rename = "PHB")]
    Phb,
    /// Host bridges of one NUMA node.
    #[serde(rename = "NODE")]
    Node,
    /// The interconnect between NUMA nodes.
    #[serde(rename = "SYS")]
    Sys,
}

impl PciClass {
    /// The letters of nvidia-smi.
    pub fn letters(self) -> &'static str {
        match self {
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }
}

/// A pair of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// How they meet over PCI; unknown where the place of one is not known.
    pub pci: Fact<PciClass>,
    /// NVLinks between them; 0 for none, unknown where NVML did not tell.
    pub nvlinks: Fact<u32>,
}

/// The best partners of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Match {
    /// The row's number.
    pub row: usize,
    /// Partners that are equally near, the nearest there are; the one to use alone where there are more rows than
    /// gdr computes all pairs of.
    pub best: Vec<usize>,
    /// The one to use, where equally near ones are shared out evenly.
    pub pick: Option<usize>,
    /// A nearer NIC that has no active port.
    pub down: Option<usize>,
    /// What the pair is worth.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub reason: String,
    /// What to move where, when it is bad.
    pub advice: Option<String>,
}

/// What a pair is worth for GPUDirect RDMA.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Below one switch: full speed.
    Good,
    /// Through one host bridge: full speed on most machines.
    LikelyGood,
    /// Between host bridges or sockets: slow.
    Bad,
    /// The place of a device is not known, or there is no partner.
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

/// The way from one row to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Path {
    /// The first row's name.
    pub from: String,
    /// The last row's name.
    pub to: String,
    /// How they meet.
    pub class: Fact<PciClass>,
    /// The devices on the way, in order, both ends included.
    pub hops: Vec<Hop>,
    /// Where the two legs meet: a bridge, or the root complex.
    pub meeting: Meeting,
    /// What the narrowest link can carry in bytes a second, one way; unknown where a link on the way is.
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
    /// Its address.
    pub bdf: Bdf,
    /// What it is: endpoint, root port, upstream port, downstream port, bridge.
    pub role: String,
    /// The link above it; none inside a switch or a root complex.
    pub link: Fact<Option<LinkState>>,
    /// The ACS control bits; none where it has no such capability.
    pub acs: Fact<Option<AcsBits>>,
}

/// The narrowest link of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bottleneck {
    /// The device below that link.
    pub below: Bdf,
    /// Bytes a second one way, before packet headers.
    pub bytes_per_second: u64,
    /// Other rows whose traffic to the root goes over that link.
    pub shared_with: Vec<String>,
}
