//! What libibverbs answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;
use super::limited::{self, MAX_DEVICES};

/// How a reading of libibverbs ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerbsOutcome {
    /// It answered.
    Read(Box<Verbs>),
    /// The library is not on this machine.
    Absent {
        /// What the loader said.
        reason: String,
    },
    /// The library is there and refused.
    Failed {
        /// errno, where it gave one.
        code: Option<i32>,
        /// What it means.
        reason: String,
    },
}

/// One reading of libibverbs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verbs {
    /// The names of the devices that have a provider.
    #[serde(default, deserialize_with = "limited::list::<MAX_DEVICES, _, _>")]
    pub devices: Vec<String>,
    /// The file that the library is.
    #[serde(default)]
    pub library: Option<String>,
    /// It has `ibv_reg_dmabuf_mr`.
    #[serde(default)]
    pub reg_dmabuf_mr: Fact<bool>,
    /// What came of opening each device, by its name; none where nobody asked to try (`--live`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<BTreeMap<String, VerbsTrial>>,
}

/// What came of opening a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerbsTrial {
    Opened(VerbsDevice),
    /// It did not.
    Refused(VerbsError),
}

/// A device that was opened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerbsDevice {
    /// Whether it registers memory of a dma-buf.
    pub dmabuf: DmabufAnswer,
    /// The most memory regions it has; unknown where it did not say.
    pub regions: Fact<u64>,
    pub ports: Vec<VerbsPort>,
}

/// What a device answers when it is asked to register memory of a file that is no dma-buf.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DmabufAnswer {
    /// It refused the file, with this errno: it would take a right one.
    Registers(i32),
    /// It has no such operation, with errno 95 (its provider's library) or 93 (the kernel).
    Refuses(i32),
    /// It could not be asked.
    Failed(VerbsError),
    /// It was not asked: the library has no such function.
    #[default]
    NotAsked,
}

/// Why verbs refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerbsError {
    /// errno, where it gave one.
    pub code: Option<i32>,
    /// In words.
    pub reason: String,
}

/// A port of a device that was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerbsPort {
    /// Its number, from 1.
    pub number: u8,
    /// The payload of a packet in bytes; it means nothing while the port is not active.
    pub active_mtu: Option<u32>,
    /// The largest payload it can have.
    pub largest_mtu: Option<u32>,
}
