//! What the CUDA driver library answers without a context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limited::{self, MAX_GPUS, MAX_PAIRS};
use super::{Bdf, Fact};

/// How a reading of libcuda ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CudaOutcome {
    /// It answered.
    Read(Box<Cuda>),
    /// The library is not on this machine.
    Absent {
        /// What the loader said.
        reason: String,
    },
    /// The library is there and refused.
    Failed {
        /// CUresult: 100 no device, 802 system not ready, 803 driver mismatch, 804 not supported by this GPU.
        ///
        /// None where it is not CUDA that refused: the library cannot be used.
        code: Option<i32>,
        /// What it means.
        reason: String,
        /// The library file that was loaded.
        #[serde(default)]
        library: Option<String>,
        /// The newest CUDA version the library serves, times 1000: it tells even where it does not start.
        #[serde(default)]
        driver_version: Fact<i32>,
    },
}

/// One reading of libcuda.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cuda {
    /// The library file that was loaded.
    #[serde(default)]
    pub library: Option<String>,
    /// The newest CUDA version the library serves, times 1000 (13000 = 13.0).
    #[serde(default)]
    pub driver_version: Fact<i32>,
    /// One GPU of each model was asked alone, since many are alike.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_of_each: bool,
    /// The GPUs, in CUDA's order.
    #[serde(default, deserialize_with = "limited::list::<MAX_GPUS, _, _>")]
    pub gpus: Vec<CudaGpu>,
    /// Each ordered pair of GPUs.
    #[serde(default, deserialize_with = "limited::list::<MAX_PAIRS, _, _>")]
    pub pairs: Vec<CudaPair>,
}

/// One GPU as CUDA sees it. What is not covered, the driver is too old to know.
///
/// The numbers are those of `CUdevice_attribute` in cuda.h.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CudaGpu {
    /// CUDA's ordinal.
    pub ordinal: u32,
    /// Address; none for a GPU that is not a PCI device.
    pub bdf: Option<Bdf>,
    /// Product name.
    pub name: Fact<String>,
    /// Compute capability (75, 76).
    pub compute: Fact<ComputeCapability>,
    /// It shares the CPU's memory (18).
    pub integrated: Fact<bool>,
    /// One address space with the host (41).
    pub unified_addressing: Fact<bool>,
    /// Host memory can be registered (99).
    pub host_register: Fact<bool>,
    /// Stream memory operations.
    pub stream_memops: StreamMemops,
    /// A stream can wait until remote writes are visible (98).
    pub flush_remote_writes: Fact<bool>,
    /// nv-p2p: nvidia-peermem and gdrdrv get at its memory (116).
    pub rdma: Fact<bool>,
    /// So they do at memory of the virtual memory functions (110).
    pub rdma_with_vmm: Fact<bool>,
    /// How remote writes are made visible: bit 0 a call of the host, bit 1 a stream memory operation (117).
    pub rdma_flush: Fact<u32>,
    /// For whom remote writes are in order without that: 0 nobody, 100 the owner, 200 all GPUs (118).
    pub rdma_ordering: Fact<u32>,
    /// Its memory can be exported as dma-buf (124).
    pub dma_buf: Fact<bool>,
    /// Its memory can be shared with other machines of its NVLink domain (128).
    pub fabric_handles: Fact<bool>,
    /// The NUMA node that is its memory (130, 131).
    pub memory_node: Fact<Option<u32>>,
}

/// Compute capability, as in 9.0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ComputeCapability {
    /// Before the point.
    pub major: u32,
    /// After the point.
    pub minor: u32,
}

/// Stream memory operations: what the two forms of the calls can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StreamMemops {
    /// The first form is on (92).
    pub v1: Fact<bool>,
    /// It takes 64-bit words (93).
    pub v1_64_bit: Fact<bool>,
    /// It waits with NOR (94).
    pub v1_nor: Fact<bool>,
    /// The second form takes 64-bit words (122).
    pub v2_64_bit: Fact<bool>,
    /// It waits with NOR (123).
    pub v2_nor: Fact<bool>,
}

/// What CUDA says of the way from one GPU to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CudaPair {
    /// Ordinal of the GPU that reaches.
    pub from: u32,
    /// Ordinal of the GPU that is reached.
    pub to: u32,
    /// It may (`cuDeviceCanAccessPeer`).
    pub can_access: Fact<bool>,
    /// Access is supported (P2P attribute 2).
    pub access: Fact<bool>,
    /// Atomic operations are (3).
    pub atomics: Fact<bool>,
    /// Rank of the link's performance, 0 the best (1).
    pub performance_rank: Fact<u32>,
}
