//! Answers of NVIDIA's management library.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limited::{self, MAX_GPUS, MAX_PAIRS};
use super::{Bdf, Fact};

/// Result of querying NVML.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NvmlOutcome {
    /// The library answered.
    Read(Box<Nvml>),
    /// The library is not installed.
    Absent {
        /// Message of the loader.
        reason: String,
    },
    /// The library is installed but failed.
    Failed {
        /// NVML's return code: 9 driver not loaded, 18 library and driver differ.
        ///
        /// Null if the failure is not NVML's: the library cannot be used.
        code: Option<u32>,
        /// Meaning of the code.
        reason: String,
    },
}

/// Answers of NVML.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Nvml {
    /// Path of the loaded library.
    pub library: Option<String>,
    /// Driver version, as in `580.159.04`.
    pub driver_version: Fact<String>,
    /// CUDA version that the driver supports, times 1000 (13000 = 13.0).
    pub cuda_version: Fact<u32>,
    /// Whether confidential computing is on.
    pub confidential_compute: Fact<bool>,
    /// GPU links of a confidential machine in NVML's words: none, protected_pcie, nvle.
    #[serde(default)]
    pub protected_links: Fact<String>,
    /// The GPUs, in NVML's order (by PCI address).
    #[serde(deserialize_with = "limited::list::<MAX_GPUS, _, _>")]
    pub gpus: Vec<NvmlGpu>,
    /// The list of GPUs may be incomplete, as in a text that was cut or that shows one GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// GPUs that NVML counts but cannot access, in words.
    #[serde(deserialize_with = "limited::list::<MAX_GPUS, _, _>")]
    pub unreachable: Vec<String>,
    /// Each ordered pair that was queried.
    #[serde(deserialize_with = "limited::list::<MAX_PAIRS, _, _>")]
    pub pairs: Vec<NvmlPair>,
}

/// One GPU as NVML reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NvmlGpu {
    /// NVML index.
    pub index: u32,
    /// PCI address.
    pub bdf: Bdf,
    /// Product name.
    pub name: Fact<String>,
    /// `GPU-…`.
    pub uuid: Fact<String>,
    /// N of `/dev/nvidiaN`.
    pub minor: Fact<u32>,
    /// Active NVLinks; known and empty if the GPU has none.
    pub active_links: Fact<Vec<NvLink>>,
    /// NVLinks that the GPU has and that are down.
    #[serde(default)]
    pub inactive_links: Fact<u32>,
    /// NVLink error counters in NVML's words, each the sum over the GPU's links.
    #[serde(default)]
    pub link_errors: Fact<BTreeMap<String, u64>>,
    /// NUMA node of its memory, on coherent GPUs.
    pub memory_node: Fact<Option<u32>>,
    /// BAR1 aperture.
    pub bar1: Fact<Bar1>,
    /// Device memory, bytes.
    pub memory_total: Fact<u64>,
    /// Persistence mode is on.
    pub persistence: Fact<bool>,
    /// MIG mode is on.
    pub mig: Fact<bool>,
    /// Fabric state in NVML's words: not_supported, not_started, in_progress, completed.
    pub fabric: Fact<String>,
    /// Result of registration with the fabric.
    #[serde(default)]
    pub fabric_registration: Fact<FabricRegistration>,
    /// Performance state, 0 is the highest.
    pub performance_state: Fact<u32>,
    /// Virtualization mode in NVML's words: none, passthrough, vgpu, host_vgpu, host_vsga.
    pub virtualization: Fact<String>,
    /// Architecture in NVML's words: kepler to blackwell.
    pub architecture: Fact<String>,
}

impl NvmlGpu {
    /// A GPU of which nothing else was read.
    pub fn unread(index: u32, bdf: Bdf) -> Self {
        Self {
            index,
            bdf,
            name: Fact::default(),
            uuid: Fact::default(),
            minor: Fact::default(),
            active_links: Fact::default(),
            inactive_links: Fact::default(),
            link_errors: Fact::default(),
            memory_node: Fact::default(),
            bar1: Fact::default(),
            memory_total: Fact::default(),
            persistence: Fact::default(),
            mig: Fact::default(),
            fabric: Fact::default(),
            fabric_registration: Fact::default(),
            performance_state: Fact::default(),
            virtualization: Fact::default(),
            architecture: Fact::default(),
        }
    }
}

/// Result of a GPU's registration with the NVLink fabric; valid once the state is completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FabricRegistration {
    /// NVML's return code, 0 for success.
    pub status: u32,
    /// GPUs of one clique can reach each other.
    pub clique: u32,
    /// The fabric is a cluster: NVLink connects GPUs of several machines. Its identifier is not kept.
    pub cluster: bool,
    /// Health in NVML's words: not_supported, healthy, unhealthy, limited_capacity; null if the driver does not report
    /// it.
    pub health: Option<String>,
}

/// One NVLink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NvLink {
    /// Link number on this GPU.
    pub index: u32,
    /// Device at the other end: gpu, switch, npu, unknown.
    pub remote: Fact<String>,
    /// PCI address of the other end.
    pub remote_bdf: Fact<Bdf>,
}

/// NVLinks between two GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkedPair {
    pub from: Bdf,
    pub to: Bdf,
    /// Number of links, direct or over NVSwitches.
    pub nvlinks: u32,
}

/// The BAR1 aperture, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bar1 {
    /// Size.
    pub total: u64,
    /// In use.
    pub used: u64,
}

/// NVML's view of an ordered pair of GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NvmlPair {
    /// Index of the first GPU.
    pub from: u32,
    /// Index of the second.
    pub to: u32,
    /// Peer-to-peer status by capability.
    pub p2p: BTreeMap<P2pCapability, Fact<P2pStatus>>,
}

/// A peer-to-peer capability, with the letter of `nvidia-smi topo -p2p`, in the order of `nvmlGpuP2PCapsIndex_t`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum P2pCapability {
    /// Reads (r).
    Read,
    /// Writes (w).
    Write,
    /// NVLink (n).
    Nvlink,
    Atomics,
    /// PCI Express (p).
    Pci,
}

impl P2pCapability {
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Nvlink, Self::Atomics, Self::Pci];

    pub fn words(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Nvlink => "NVLink",
            Self::Atomics => "atomics",
            Self::Pci => "PCI Express",
        }
    }
}

/// Status of a peer-to-peer capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum P2pStatus {
    /// Supported.
    Ok,
    /// The chipset is not supported.
    Chipset,
    /// The GPU is not supported.
    Gpu,
    /// The topology is not supported.
    Topology,
    /// Disabled by a registry key of the driver.
    Disabled,
    NotSupported,
    /// NVML does not know, or returned a code newer than gdr.
    Unknown,
}

impl P2pStatus {
    /// The status in words, with the abbreviation of nvidia-smi's legend.
    pub fn words(self) -> &'static str {
        match self {
            Self::Ok => "granted",
            Self::Chipset => "the chipset is not supported (CNS)",
            Self::Gpu => "the GPU is not supported (GNS)",
            Self::Topology => "the topology is not supported (TNS)",
            Self::Disabled => "disabled by a registry key of the driver (DR)",
            Self::NotSupported => "not supported (NS)",
            Self::Unknown => "not known (U)",
        }
    }

    /// Abbreviation of nvidia-smi's legend.
    pub fn abbreviation(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Chipset => "CNS",
            Self::Gpu => "GNS",
            Self::Topology => "TNS",
            Self::Disabled => "DR",
            Self::NotSupported => "NS",
            Self::Unknown => "U",
        }
    }
}
