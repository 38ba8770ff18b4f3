//! What bounds processes on this machine: configured limits of locked memory, the RDMA control group, mappings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// The limits beside the process's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// Lines that set locked memory for logins (`limits.d`) and for all services (`DefaultLimitMEMLOCK`).
    pub memlock_settings: Fact<Vec<Setting>>,
    /// Services that start other people's programs, and what their units say of locked memory.
    pub services: Fact<Vec<Service>>,
    /// What the RDMA controller grants this process's control group and those above it; empty where it limits nothing.
    pub rdma_cgroup: Fact<Vec<RdmaGrant>>,
    /// `/proc/sys/vm/max_map_count`.
    pub max_map_count: Fact<u64>,
}

/// A line of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The file.
    pub path: String,
    /// The line; the names of users and groups are taken out.
    pub line: String,
}

/// A systemd service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Its name, as in `slurmd`.
    pub name: String,
    /// `LimitMEMLOCK` of the unit and its drop-ins, the last that counts; none where nothing sets it.
    pub memlock: Option<Setting>,
}

/// What a control group may have of one RDMA resource of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaGrant {
    /// The control group's directory.
    pub group: String,
    /// The RDMA device.
    pub device: String,
    /// `hca_handle` or `hca_object`.
    pub resource: String,
    /// As many as it may have.
    pub most: u64,
    /// As many as it has.
    pub used: Fact<u64>,
}
