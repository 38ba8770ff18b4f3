//! What NCCL decides on a machine: schema `gdr.nccl/1`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A path in NCCL's words, nearest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum NcclPath {
    /// The same device.
    Loc,
    /// NVLink.
    Nvl,
    /// NVLink by way of another GPU.
    Nvb,
    /// NVLink-C2C.
    C2c,
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches.
    Pxb,
    /// NVLink-C2C to the CPU, PCI Express to the NIC.
    P2c,
    /// NVLink to a GPU that is near the NIC.
    Pxn,
    /// Through the CPU.
    Phb,
    /// Between NUMA nodes.
    Sys,
}

impl NcclPath {
    /// NCCL's letters.
    pub fn letters(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Nvl => "NVL",
            Self::Nvb => "NVB",
            Self::C2c => "C2C",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::P2c => "P2C",
            Self::Pxn => "PXN",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        }
    }
}

/// What NCCL decides with all GPUs of a machine in one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NcclDecisions {
    pub version: NcclVersion,
    /// NCCL's variables of this process that change these decisions; null if the environment is unknown.
    pub variables: Option<BTreeMap<String, String>>,
    /// The farthest path for peer to peer.
    pub p2p_level: NcclLevel,
    /// The farthest path for GPUDirect RDMA.
    pub gdr_level: NcclLevel,
    /// Each pair of GPUs.
    pub gpu_pairs: Vec<NcclGpuPair>,
    /// Each GPU with each NIC.
    pub nic_pairs: Vec<NcclNicPair>,
    /// The NICs that each GPU uses.
    pub uses: Vec<NcclUse>,
}

/// The version whose rules are applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NcclVersion {
    /// As in `2.27.7`.
    pub number: String,
    /// Where the number is from: `installed`, `option`, or `newest_known` if neither says it.
    pub from: NcclVersionSource,
    /// The library that is installed.
    pub library: Option<String>,
    /// The tag of NCCL's repository whose lines are cited.
    pub tag: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NcclVersionSource {
    Installed,
    Option,
    NewestKnown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NcclLevel {
    /// Null if a fact that decides it is unknown.
    pub level: Option<NcclPath>,
    /// The variable or rule that decides.
    pub reason: String,
    /// Line of NCCL's source.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NcclGpuPair {
    pub from: String,
    pub to: String,
    /// Null if unknown.
    pub path: Option<NcclPath>,
    /// Peer to peer is used; null if unknown.
    pub p2p: Option<bool>,
    /// Why, and the variable that changes it.
    pub reason: String,
    /// Line of NCCL's source.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NcclNicPair {
    pub gpu: String,
    pub nic: String,
    /// Name of the RDMA device.
    pub device: String,
    /// Null if unknown.
    pub path: Option<NcclPath>,
    /// The GPU near the NIC, if the path is PXN.
    pub through: Option<String>,
    /// The NIC writes to GPU memory; null if unknown. It also needs a memory path, see `gdr doctor`.
    pub receive: Option<bool>,
    /// The NIC reads GPU memory; null if unknown. It also needs a memory path, see `gdr doctor`.
    pub send: Option<bool>,
    /// Why, and the variable that changes it.
    pub reason: String,
    /// Line of NCCL's source.
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NcclUse {
    pub gpu: String,
    /// Names of the RDMA devices.
    pub nics: Vec<String>,
}
