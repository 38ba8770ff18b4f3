//! Whether RDMA devices could register GPU memory, and GPUs the doorbells of RDMA devices, as tried on the live machine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, VerbsError};

/// How a trial of registering GPU memory ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationOutcome {
    /// Each GPU was tried.
    Tried(Vec<GpuRegistration>),
    /// There is no CUDA library, or no libibverbs, on this machine.
    Absent {
        /// What the loader said.
        reason: String,
    },
    /// The libraries are there, and one shows no device, or refused.
    Failed {
        /// What it said.
        reason: String,
    },
}

/// What became of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuRegistration {
    /// Its address; none for a device that is not on PCI.
    pub bdf: Option<Bdf>,
    /// CUDA's number for it.
    pub ordinal: u32,
    /// How the trial ended.
    pub trial: RegistrationTrial,
    /// What came of the other direction: its streams write the devices' doorbell registers. None where nobody tried, as a gdr
    /// before it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doorbells: Option<DoorbellTrials>,
}

/// How the trial of a GPU with doorbell registers ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoorbellTrials {
    /// The GPU was opened, and this is what came of each RDMA device of mlx5, by its name; and of each whose make nothing tells,
    /// since it or libmlx5.so.1 could not be opened.
    Tried(BTreeMap<String, DoorbellTrial>),
    /// The GPU could not be opened.
    NotTried {
        /// Why.
        reason: String,
    },
}

/// What came of registering the page of an RDMA device's doorbell register (UAR) with a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoorbellTrial {
    /// It was registered (or was already), and the registration ended again.
    Registered,
    /// CUDA refused.
    Refused {
        /// `CUresult`, where a function of the driver returned one.
        code: Option<u32>,
        /// A sentence, with the function and the result's name.
        reason: String,
    },
    /// There is no library that tells where the register lies (libmlx5.so.1), or it lacks the function.
    NoLibrary {
        /// What the loader said.
        reason: String,
    },
    /// The device could not be opened.
    Closed(VerbsError),
    /// It was opened, and made no queue pair with a doorbell register of its own.
    Withheld(VerbsError),
}

/// How the trial of a GPU ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationTrial {
    /// There was memory, and this is what came of it with each RDMA device, by its name.
    Tried(BTreeMap<String, NicTrial>),
    /// There was no memory to register: the GPU is full, belongs to somebody else's process, or does not work.
    NotTried {
        /// Why.
        reason: String,
    },
}

/// What came of a GPU's memory with an RDMA device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NicTrial {
    /// Both memory paths were tried.
    Opened(MemoryPaths),
    /// The device could not be opened.
    Refused(VerbsError),
}

/// The memory paths by which an RDMA device reaches GPU memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPaths {
    /// A dma-buf of the memory.
    pub dmabuf: MemoryPathTrial,
    /// The memory's address, which a peer memory client of the kernel resolves.
    pub peermem: MemoryPathTrial,
}

/// What came of one memory path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPathTrial {
    /// The memory was registered, and the registration ended again.
    Registered,
    /// CUDA gave nothing that could be registered.
    Withheld {
        /// Why.
        reason: String,
    },
    Refused(VerbsError),
}
