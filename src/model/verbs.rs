//! Answers of libibverbs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limited::{self, MAX_DEVICES};
use super::{Bdf, Fact};

/// Result of querying libibverbs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerbsOutcome {
    /// The library answered.
    Read(Box<Verbs>),
    /// The library is not installed.
    Absent {
        /// Message of the loader.
        reason: String,
    },
    /// The library is installed but failed.
    Failed {
        /// errno, if there is one.
        code: Option<i32>,
        /// Meaning of the code.
        reason: String,
    },
}

/// Answers of libibverbs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verbs {
    /// Names of devices that have a provider.
    #[serde(default, deserialize_with = "limited::list::<MAX_DEVICES, _, _>")]
    pub devices: Vec<String>,
    /// Path of the loaded library.
    #[serde(default)]
    pub library: Option<String>,
    /// The library has `ibv_reg_dmabuf_mr`.
    #[serde(default)]
    pub reg_dmabuf_mr: Fact<bool>,
    /// Result of opening each device, by name; none without `--live`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<BTreeMap<String, VerbsTrial>>,
}

/// Result of opening a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerbsTrial {
    Opened(VerbsDevice),
    /// The device could not be opened.
    Refused(VerbsError),
}

/// A device that was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerbsDevice {
    /// Whether it can register a dma-buf.
    pub dmabuf: DmabufAnswer,
    /// PCI address of its Data Direct function; unknown if libmlx5 is too old (rdma-core 54) to name it.
    #[serde(default)]
    pub data_direct: Fact<Option<Bdf>>,
    pub ports: Vec<VerbsPort>,
}

/// Answer to the registration of a file that is not a dma-buf.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DmabufAnswer {
    /// Rejected the file with this errno: it would accept a dma-buf.
    Registers(i32),
    /// Does not support the operation, with errno 95 (provider library) or 93 (kernel).
    Refuses(i32),
    /// The test failed.
    Failed(VerbsError),
    /// Not tested: the library has no such function.
    #[default]
    NotAsked,
}

/// An error of libibverbs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerbsError {
    /// errno, if there is one.
    pub code: Option<i32>,
    /// The error in words.
    pub reason: String,
}

/// A port of a device that was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerbsPort {
    /// Port number, from 1.
    pub number: u8,
    /// Active MTU: payload of a packet in bytes. Meaningless while the port is not active.
    pub active_mtu: Option<u32>,
    /// Maximum MTU.
    pub largest_mtu: Option<u32>,
}
