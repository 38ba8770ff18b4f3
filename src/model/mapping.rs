//! Whether the CPU could map GPU memory, as tried on the live machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BackendChoice, Bdf};

/// How a trial of mapping GPU memory ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MappingOutcome {
    /// Each GPU was tried.
    Tried(Vec<GpuMapping>),
    /// There is no CUDA library on this machine.
    Absent {
        /// What the loader said.
        reason: String,
    },
    /// CUDA is there and shows no GPU, or refused.
    Failed {
        /// What it said.
        reason: String,
    },
}

/// What became of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuMapping {
    /// Its address; none for a device that is not on PCI.
    pub bdf: Option<Bdf>,
    /// CUDA's number for it.
    pub ordinal: u32,
    /// How the trial ended.
    pub trial: MappingTrial,
    /// Each backend, and why it was or was not taken.
    pub backends: Vec<BackendChoice>,
    /// What came of exporting some of its memory as dma-buf; none where there was no memory to export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dma_buf: Option<DmaBufTrial>,
}

/// What came of exporting memory as dma-buf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DmaBufTrial {
    /// The driver gave a descriptor.
    Exported,
    /// The driver refused.
    Refused {
        /// What it said.
        reason: String,
    },
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MappingTrial {
    /// Memory was mapped, and so many bytes went through in each direction, all right.
    Verified {
        backend: String,
        /// How the CPU reaches it, in gdrcopy's words: Write Combining, Caching, Device.
        mapping: String,
        /// Bytes compared.
        bytes: u64,
    },
    /// A byte was wrong.
    Wrong {
        backend: String,
        /// Where, what was expected, what was found.
        reason: String,
    },
    /// There was no memory to map: the GPU is full, or belongs to somebody else's process.
    NotTried {
        /// Why.
        reason: String,
    },
    /// It could not be mapped.
    Refused {
        /// Why.
        reason: String,
    },
}
