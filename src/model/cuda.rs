//! Answers of the CUDA driver library without a context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limited::{self, MAX_GPUS, MAX_PAIRS};
use super::{Bdf, Fact};

/// Result of querying libcuda.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CudaOutcome {
    /// The library answered.
    Read(Box<Cuda>),
    /// The library is not installed.
    Absent {
        /// Message of the loader.
        reason: String,
    },
    /// The library is installed but failed.
    Failed {
        /// CUresult: 100 no device, 802 system not ready, 803 driver mismatch, 804 not supported by this GPU.
        ///
        /// Null if the failure is not CUDA's: the library cannot be used.
        code: Option<i32>,
        /// Meaning of the code.
        reason: String,
        /// Path of the loaded library.
        #[serde(default)]
        library: Option<String>,
        /// Newest CUDA version of the library, times 1000; known even if initialization fails.
        #[serde(default)]
        driver_version: Fact<i32>,
    },
}

/// Answers of libcuda.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cuda {
    /// Path of the loaded library.
    #[serde(default)]
    pub library: Option<String>,
    /// Newest CUDA version of the library, times 1000 (13000 = 13.0).
    #[serde(default)]
    pub driver_version: Fact<i32>,
    /// One GPU of each model was queried alone, because the machine has many equal GPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_of_each: bool,
    /// The GPUs, in CUDA's order.
    #[serde(default, deserialize_with = "limited::list::<MAX_GPUS, _, _>")]
    pub gpus: Vec<CudaGpu>,
    /// Each ordered pair of GPUs.
    #[serde(default, deserialize_with = "limited::list::<MAX_PAIRS, _, _>")]
    pub pairs: Vec<CudaPair>,
}

/// One GPU as CUDA reports it. A fact is not available if the driver is too old for its attribute.
///
/// The numbers are those of `CUdevice_attribute` in cuda.h.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CudaGpu {
    /// CUDA ordinal.
    pub ordinal: u32,
    /// PCI address; null for a GPU that is not on PCI.
    pub bdf: Option<Bdf>,
    /// Product name.
    pub name: Fact<String>,
    /// Compute capability (75, 76).
    pub compute: Fact<ComputeCapability>,
    /// It shares the CPU's memory (18).
    pub integrated: Fact<bool>,
    /// Stream memory operations.
    pub stream_memops: StreamMemops,
    /// A stream can wait until remote writes are visible (98).
    pub flush_remote_writes: Fact<bool>,
    /// nv-p2p: nvidia-peermem and gdrdrv get at its memory (116).
    pub rdma: Fact<bool>,
    /// How to make remote writes visible: bit 0 a host call, bit 1 a stream memory operation (117).
    pub rdma_flush: Fact<u32>,
    /// Who sees remote writes in order without a flush: 0 nobody, 100 the owner, 200 all GPUs (118).
    pub rdma_ordering: Fact<u32>,
    /// Its memory can be exported as dma-buf (124).
    pub dma_buf: Fact<bool>,
    /// Its memory can be shared with other machines of its NVLink domain (128).
    pub fabric_handles: Fact<bool>,
    /// NUMA node of its memory (130, 131).
    pub memory_node: Fact<Option<u32>>,
}

/// Compute capability, for example 9.0.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct ComputeCapability {
    pub major: u32,
    pub minor: u32,
}

/// Stream memory operations: support in both versions of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct StreamMemops {
    /// Version 1 is enabled (92).
    pub v1: Fact<bool>,
    /// Version 1 supports 64-bit values (93).
    pub v1_64_bit: Fact<bool>,
    /// Version 1 supports the NOR wait (94).
    pub v1_nor: Fact<bool>,
    /// Version 2 supports 64-bit values (122).
    pub v2_64_bit: Fact<bool>,
    /// Version 2 supports the NOR wait (123).
    pub v2_nor: Fact<bool>,
}

/// CUDA's peer attributes of an ordered pair of GPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CudaPair {
    /// Ordinal of the accessing GPU.
    pub from: u32,
    /// Ordinal of the accessed GPU.
    pub to: u32,
    /// `cuDeviceCanAccessPeer`.
    pub can_access: Fact<bool>,
    /// Access is supported (P2P attribute 2).
    pub access: Fact<bool>,
    /// Native atomic operations are supported (3).
    pub atomics: Fact<bool>,
}
