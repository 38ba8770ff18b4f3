//! Whether RDMA devices can register GPU memory, and GPUs the doorbells of RDMA devices, as tested on the live
//! machine.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, VerbsError};

/// Result of registering GPU memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationOutcome {
    /// Each GPU was tested.
    Tried(Vec<GpuRegistration>),
    /// The CUDA library or libibverbs is not installed.
    Absent {
        /// Message of the loader.
        reason: String,
    },
    /// The libraries are installed, but one shows no device or failed.
    Failed {
        /// The error.
        reason: String,
    },
}

/// Result for one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuRegistration {
    /// PCI address; null for a device that is not on PCI.
    pub bdf: Option<Bdf>,
    /// CUDA ordinal.
    pub ordinal: u32,
    /// Result of the test.
    pub trial: RegistrationTrial,
    /// Result of the opposite direction: registering the doorbells of the RDMA devices with the GPU. Absent if not
    /// tested, as in older versions of gdr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doorbells: Option<DoorbellTrials>,
}

/// Result of registering doorbells with a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoorbellTrials {
    /// The GPU was opened. Results by name of RDMA device: all mlx5 devices, and those of unknown type because they or
    /// libmlx5.so.1 could not be opened.
    Tried(BTreeMap<String, DoorbellTrial>),
    /// The GPU could not be opened.
    NotTried { reason: String },
}

/// Result of registering the page of an RDMA device's doorbell register (UAR) with a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DoorbellTrial {
    /// It was registered (or was already) and unregistered again.
    Registered,
    /// CUDA failed.
    Refused {
        /// `CUresult`, if a driver function returned one.
        code: Option<u32>,
        /// A sentence with the function and the name of the result.
        reason: String,
    },
    /// libmlx5.so.1, which provides the address of the register, is missing or lacks the function.
    NoLibrary {
        /// Message of the loader.
        reason: String,
    },
    /// The device could not be opened.
    Closed(VerbsError),
    /// The device was opened, but did not create a queue pair with its own doorbell register.
    Withheld(VerbsError),
}

/// Result of the memory of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegistrationTrial {
    /// There was memory. Results by name of RDMA device.
    Tried(BTreeMap<String, NicTrial>),
    /// There was no memory to register: the GPU is full, another process uses it exclusively, or it does not work.
    NotTried { reason: String },
}

/// Result of one GPU with one RDMA device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NicTrial {
    /// The memory paths were tested.
    Opened(MemoryPaths),
    /// The device could not be opened.
    Refused(VerbsError),
}

/// Results of the memory paths between an RDMA device and GPU memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPaths {
    /// Registration of a dma-buf with the PCIe mapping for the RDMA device's Data Direct function. Absent if the RDMA
    /// device has none, and for a GPU without NVLink-C2C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_direct: Option<MemoryPathTrial>,
    /// Registration of a dma-buf with the PCIe mapping. Absent for a GPU without NVLink-C2C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dmabuf_pcie: Option<MemoryPathTrial>,
    /// Registration of a dma-buf with the default mapping.
    pub dmabuf: MemoryPathTrial,
    /// Registration of the memory's address, which a peer memory client of the kernel resolves.
    pub peermem: MemoryPathTrial,
}

/// Result of one memory path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPathTrial {
    /// The memory was registered and unregistered again.
    Registered,
    /// CUDA provided nothing to register.
    Withheld {
        reason: String,
    },
    Refused(VerbsError),
}
