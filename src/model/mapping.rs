//! Whether the CPU can map GPU memory, as tested on the live machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BackendChoice, Bdf};

/// Result of mapping GPU memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MappingOutcome {
    /// Each GPU was tested.
    Tried(Vec<GpuMapping>),
    /// The CUDA library is not installed.
    Absent {
        /// Message of the loader.
        reason: String,
    },
    /// CUDA is installed, but shows no GPU or failed.
    Failed {
        /// The error.
        reason: String,
    },
}

/// Result for one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuMapping {
    /// PCI address; null for a device that is not on PCI.
    pub bdf: Option<Bdf>,
    /// CUDA ordinal.
    pub ordinal: u32,
    /// Result of the test.
    pub trial: MappingTrial,
    /// Each backend, and why it was or was not chosen.
    pub backends: Vec<BackendChoice>,
    /// Result of exporting its memory as dma-buf; null if there was no memory to export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dma_buf: Option<DmaBufTrial>,
}

/// Result of exporting memory as dma-buf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DmaBufTrial {
    /// The driver exported a file descriptor.
    Exported,
    /// The driver failed.
    Refused {
        /// The error.
        reason: String,
    },
}

/// Result of mapping the memory of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MappingTrial {
    /// Memory was mapped, and the bytes written and read in each direction were correct.
    Verified {
        backend: String,
        /// Memory type of the mapping, in gdrcopy's words: Write Combining, Caching, Device.
        mapping: String,
        /// Bytes compared.
        bytes: u64,
    },
    /// A byte was wrong.
    Wrong {
        backend: String,
        /// Offset, expected value and value read.
        reason: String,
    },
    /// There was no memory to map: the GPU is full, or another process uses it exclusively.
    NotTried { reason: String },
    /// The memory could not be mapped.
    Refused { reason: String },
}
