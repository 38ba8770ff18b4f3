//! The facts NVML gives, as plain data: the JSON a child process hands to its parent.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::codes::{
    Architecture, CommonAncestor, CpuProtection, Environment, FabricHealth, FabricState, P2p,
    ProtectedLinks, RemoteDevice, Virtualization,
};
use super::reading::Reading;

/// The machine, as NVML sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nvml {
    /// The library's file, as `/proc/self/maps` shows it after it was opened; `None` where it shows none.
    pub library: Option<PathBuf>,
    /// The loaded driver, `580.159.04` (`nvmlSystemGetDriverVersion`).
    pub driver_version: Reading<String>,
    /// The library itself, `13.580.159.04` (`nvmlSystemGetNVMLVersion`).
    pub nvml_version: Reading<String>,
    /// The newest CUDA the driver serves, 1000 × major + 10 × minor (`nvmlSystemGetCudaDriverVersion_v2`, which opens
    /// libcuda; its absence is `NotCovered`). `None`: not asked, see [`Query::details`](super::Want::details).
    pub cuda_driver_version: Option<Reading<i32>>,
    /// Confidential computing, which takes peer-to-peer away or changes it.
    pub confidential_compute: ConfidentialCompute,
    /// The GPUs that answered, in NVML's order: `nvidia-smi`'s, not always CUDA's.
    pub gpus: Vec<Gpu>,
    /// The GPUs NVML counts and cannot open: off the bus, in need of a reset, closed by a cgroup.
    pub unreachable: Vec<Unreachable>,
    /// Every two of [`gpus`](Self::gpus) once, the lower index first. `None`: not asked.
    pub pairs: Option<Vec<Pair>>,
}

/// A GPU that NVML counts and cannot open or place (`nvmlDeviceGetHandleByIndex_v2`, `nvmlDeviceGetPciInfo_v3`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unreachable {
    /// Its index in NVML.
    pub index: u32,
    /// NVML's return code; `None` where the library lacks the function.
    pub code: Option<u32>,
    /// The function and what it says.
    pub reason: String,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// NVML's index, the number `nvidia-smi` prints.
    pub index: u32,
    /// The PCI address as NVML writes it, `00000000:00:06.0` (`nvmlDeviceGetPciInfo_v3`, `busId`).
    pub bdf: String,
    /// `NVIDIA H200` (`nvmlDeviceGetName`).
    pub name: Reading<String>,
    /// `GPU-` and a UUID (`nvmlDeviceGetUUID`).
    pub uuid: Reading<String>,
    /// The N of `/dev/nvidiaN` (`nvmlDeviceGetMinorNumber`).
    pub minor: Reading<u32>,
    /// The NVLinks the GPU answers for, empty where it has none. `None`: not asked.
    pub links: Option<Reading<Vec<Link>>>,
    /// The rest. `None`: not asked.
    pub details: Option<Details>,
}

/// One NVLink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Its number on this GPU, from 0.
    pub index: u32,
    /// Whether it is up (`nvmlDeviceGetNvLinkState`).
    pub active: bool,
    /// NVML's number of the NVLink version: 6 is NVLink 4.0, 7 is 5.0 (`nvmlNvlinkVersion_t`, by
    /// `nvmlDeviceGetNvLinkVersion`).
    pub version: Reading<u32>,
    /// What is at the remote end (`nvmlDeviceGetNvLinkRemoteDeviceType`).
    pub remote: Reading<RemoteDevice>,
    /// The remote end's PCI address as NVML writes it (`nvmlDeviceGetNvLinkRemotePciInfo_v2`). `NotCovered` too where NVML
    /// answers `FFFFFFFF:FF:FF.0`, as in a guest that was given the GPUs without their switches.
    pub remote_bdf: Reading<String>,
}

/// What only a caller who wants everything pays for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Persistence mode (`nvmlDeviceGetPersistenceMode`).
    pub persistence: Reading<bool>,
    /// Multi-instance mode (`nvmlDeviceGetMigMode`); `NotCovered` on GPUs without it.
    pub mig: Reading<Mig>,
    /// The CPU's window into the GPU's memory (`nvmlDeviceGetBAR1MemoryInfo`).
    pub bar1: Reading<Bar1>,
    /// The GPU's memory in bytes (`nvmlDeviceGetMemoryInfo`, `total`).
    pub memory_total: Reading<u64>,
    /// The CPUs near the GPU (`nvmlDeviceGetCpuAffinity`), ascending.
    pub cpu_affinity: Reading<Vec<u32>>,
    /// The NUMA nodes near the GPU (`nvmlDeviceGetMemoryAffinity`, scope node), ascending.
    pub memory_affinity: Reading<Vec<u32>>,
    /// The NUMA node that IS the GPU's memory, on coherent machines such as GH200 (`nvmlDeviceGetNumaNodeId`);
    /// `Known(None)` where NVML says that the GPU is no node.
    pub numa_node: Reading<Option<u32>>,
    /// Registration with the NVLink fabric (`nvmlDeviceGetGpuFabricInfoV`, else `nvmlDeviceGetGpuFabricInfo`).
    pub fabric: Reading<Fabric>,
    /// The PCIe link.
    pub pcie: Pcie,
    /// 0 (busiest) to 15; 32 is NVML's "unknown" (`nvmlDeviceGetPerformanceState`). An idle GPU may show a slower PCIe
    /// link than it has.
    pub performance_state: Reading<u32>,
    /// `nvmlDeviceGetVirtualizationMode`.
    pub virtualization: Reading<Virtualization>,
    /// `nvmlDeviceGetArchitecture`.
    pub architecture: Reading<Architecture>,
    /// Whether the GPU shares its board with another (`nvmlDeviceGetMultiGpuBoard`).
    pub multi_gpu_board: Reading<bool>,
}

/// Multi-instance mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mig {
    /// On now.
    pub current: bool,
    /// On after the next reset.
    pub pending: bool,
}

/// BAR1, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar1 {
    /// Its size.
    pub total: u64,
    /// Mapped now.
    pub used: u64,
    /// Still free.
    pub free: u64,
}

/// The PCIe link: the generation is 1 to 6, the width a number of lanes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pcie {
    /// Now (`nvmlDeviceGetCurrPcieLinkGeneration`).
    pub generation: Reading<u32>,
    /// The most that GPU and slot allow together (`nvmlDeviceGetMaxPcieLinkGeneration`).
    pub max_generation: Reading<u32>,
    /// The most that the GPU allows (`nvmlDeviceGetGpuMaxPcieLinkGeneration`).
    pub gpu_max_generation: Reading<u32>,
    /// Now (`nvmlDeviceGetCurrPcieLinkWidth`).
    pub width: Reading<u32>,
    /// The most that GPU and slot allow together (`nvmlDeviceGetMaxPcieLinkWidth`).
    pub max_width: Reading<u32>,
}

/// Registration with the NVLink fabric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fabric {
    /// How far registration is.
    pub state: FabricState,
    /// How it ended, an NVML return code (0 is success); of use once the state is `Completed`.
    pub status: u32,
    /// GPUs of one cluster and one clique can reach one another.
    pub clique_id: u32,
    /// The cluster; all zero inside one machine.
    pub cluster_uuid: String,
    /// Two or four bits a trouble, 0 not reported, 1 yes, 2 no: degraded bandwidth from bit 0, route recovery from bit 2,
    /// route unhealthy from 4, access timeout recovery from 6; wrong configuration from 8, there 1 is none
    /// (`NVML_GPU_FABRIC_HEALTH_MASK_*`). `None` before `nvmlGpuFabricInfo_v2_t`.
    pub health_mask: Option<u32>,
    /// `None` before `nvmlGpuFabricInfo_v3_t`.
    pub health: Option<FabricHealth>,
}

/// Two GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The lower index in NVML.
    pub a: u32,
    /// The higher index in NVML.
    pub b: u32,
    /// `nvmlDeviceGetTopologyCommonAncestor`.
    pub common_ancestor: Reading<CommonAncestor>,
    /// Reads, whatever the way (`nvmlDeviceGetP2PStatus`, index 0; `nvidia-smi topo -p2p r`).
    pub read: Reading<P2p>,
    /// Writes (index 1; `w`).
    pub write: Reading<P2p>,
    /// Over NVLink (index 2; `n`).
    pub nvlink: Reading<P2p>,
    /// Atomic operations (index 3; `a`).
    pub atomics: Reading<P2p>,
    /// Over PCIe (index 4, which nvml.h once called PROP; `p`).
    pub pcie: Reading<P2p>,
}

/// Confidential computing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfidentialCompute {
    /// What the machine could do (`nvmlSystemGetConfComputeCapabilities`).
    pub capabilities: Reading<ConfidentialCapabilities>,
    /// What it does (`nvmlSystemGetConfComputeState`).
    pub state: Reading<ConfidentialState>,
    /// How its GPUs talk to one another (`nvmlSystemGetConfComputeSettings`).
    pub links: Reading<ProtectedLinks>,
}

/// What the machine could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfidentialCapabilities {
    /// The processor's part.
    pub cpu: CpuProtection,
    /// Whether the GPUs can.
    pub gpus: bool,
}

/// What the machine does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfidentialState {
    /// Where it runs.
    pub environment: Environment,
    /// Whether the feature is on.
    pub enabled: bool,
    /// Whether developer tools may look inside.
    pub devtools: bool,
}
