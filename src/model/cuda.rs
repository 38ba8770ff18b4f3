//! What the CUDA driver library answers without a context.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    },
}

/// One reading of libcuda.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cuda {
    /// The newest CUDA version the driver serves, times 1000 (13000 = 13.0).
    #[serde(default)]
    pub driver_version: Fact<i32>,
    /// The GPUs, in CUDA's order.
    #[serde(default)]
    pub gpus: Vec<CudaGpu>,
}

/// One GPU as CUDA sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CudaGpu {
    /// CUDA's ordinal.
    pub ordinal: u32,
    /// Address.
    #[serde(default)]
    pub bdf: Option<Bdf>,
}
