//! NVML facts as plain data: the JSON that a child process sends to its parent.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::codes::{
    Architecture, FabricHealth, FabricState, P2p, ProtectedLinks, RemoteDevice, Virtualization,
};
use super::reading::Reading;

/// NVML's view of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Nvml {
    /// Library file, from `/proc/self/maps` after opening; `None` if not listed there.
    pub library: Option<PathBuf>,
    /// The loaded driver, `580.159.04` (`nvmlSystemGetDriverVersion`).
    pub driver_version: Reading<String>,
    /// The newest CUDA the driver serves, 1000 × major + 10 × minor
    /// (`nvmlSystemGetCudaDriverVersion_v2`, which opens libcuda; its absence is `NotCovered`).
    /// `None`: not requested, see [`Query::details`](super::Query::details).
    pub cuda_driver_version: Option<Reading<i32>>,
    /// Confidential computing, which may disable or change peer-to-peer access.
    pub confidential_compute: ConfidentialCompute,
    /// The GPUs that answered, in NVML's order: `nvidia-smi`'s, not always CUDA's.
    pub gpus: Vec<Gpu>,
    /// GPUs that NVML counts but cannot open: off the bus, in need of a reset, or forbidden by a
    /// cgroup.
    pub unreachable: Vec<Unreachable>,
    /// All pairs of [`gpus`](Self::gpus), lower index first. `None`: not requested.
    pub pairs: Option<Vec<Pair>>,
}

/// A GPU that NVML counts and cannot open or place (`nvmlDeviceGetHandleByIndex_v2`,
/// `nvmlDeviceGetPciInfo_v3`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unreachable {
    /// NVML index.
    pub index: u32,
    /// NVML return code; `None` if the library lacks the function.
    pub code: Option<u32>,
    /// Function and error message.
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
    /// The GPU's NVLinks, possibly empty. `None`: not requested.
    pub links: Option<Reading<Vec<Link>>>,
    /// Further details. `None`: not requested.
    pub details: Option<Details>,
}

/// One NVLink.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Link number on this GPU, from 0.
    pub index: u32,
    /// True if up (`nvmlDeviceGetNvLinkState`).
    pub active: bool,
    /// Remote device type (`nvmlDeviceGetNvLinkRemoteDeviceType`).
    pub remote: Reading<RemoteDevice>,
    /// Remote PCI address in NVML's format (`nvmlDeviceGetNvLinkRemotePciInfo_v2`). Also
    /// `NotCovered` if NVML returns `FFFFFFFF:FF:FF.0`, as in a guest that has the GPUs but not
    /// their switches.
    pub remote_bdf: Reading<String>,
}

/// Details that are only read on request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Persistence mode (`nvmlDeviceGetPersistenceMode`).
    pub persistence: Reading<bool>,
    /// Multi-instance mode is on (`nvmlDeviceGetMigMode`); `NotCovered` on GPUs without it.
    pub mig: Reading<bool>,
    /// BAR1 size and use (`nvmlDeviceGetBAR1MemoryInfo`).
    pub bar1: Reading<Bar1>,
    /// The GPU's memory in bytes (`nvmlDeviceGetMemoryInfo`, `total`).
    pub memory_total: Reading<u64>,
    /// NUMA node of the GPU's own memory on coherent machines such as GH200
    /// (`nvmlDeviceGetNumaNodeId`); `Known(None)` if it is not a node.
    pub numa_node: Reading<Option<u32>>,
    /// Registration with the NVLink fabric (`nvmlDeviceGetGpuFabricInfoV`, else
    /// `nvmlDeviceGetGpuFabricInfo`).
    pub fabric: Reading<Fabric>,
    /// NVLink error counters by name, each the sum over the GPU's links since the driver was loaded
    /// or the counters were cleared (`nvmlDeviceGetFieldValues`). Only those that this GPU has.
    pub link_errors: Reading<BTreeMap<String, u64>>,
    /// 0 (busiest) to 15; 32 is NVML's "unknown" (`nvmlDeviceGetPerformanceState`). An idle GPU may
    /// report a slower PCIe link than it supports.
    pub performance_state: Reading<u32>,
    /// `nvmlDeviceGetVirtualizationMode`.
    pub virtualization: Reading<Virtualization>,
    /// `nvmlDeviceGetArchitecture`.
    pub architecture: Reading<Architecture>,
}

/// BAR1, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar1 {
    /// Its size.
    pub total: u64,
    /// Mapped now.
    pub used: u64,
}

/// Registration with the NVLink fabric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fabric {
    /// Registration state.
    pub state: FabricState,
    /// Registration result as an NVML return code (0 is success); valid once the state is
    /// `Completed`.
    pub status: u32,
    /// GPUs of the same cluster and clique can access one another.
    pub clique_id: u32,
    /// The cluster; all zero inside one machine.
    pub cluster_uuid: String,
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
    /// Reads over any path (`nvmlDeviceGetP2PStatus`, index 0; `nvidia-smi topo -p2p r`).
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
    /// True if it is on (`nvmlSystemGetConfComputeState`).
    pub enabled: Reading<bool>,
    /// Protection of GPU-to-GPU traffic (`nvmlSystemGetConfComputeSettings`).
    pub links: Reading<ProtectedLinks>,
}
