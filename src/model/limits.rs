//! Resource limits: configured limits of locked memory, the RDMA control group, the number of mappings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// Limits other than those of the process itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Limits {
    /// Lines that set locked memory for logins (`limits.d`) and for all services (`DefaultLimitMEMLOCK`).
    pub memlock_settings: Fact<Vec<Setting>>,
    /// Services that start programs of users, and their limit of locked memory.
    pub services: Fact<Vec<Service>>,
    /// Limits of the RDMA controller for this process's control group and its parents; empty if there are none.
    pub rdma_cgroup: Fact<Vec<RdmaGrant>>,
    /// `/proc/sys/vm/max_map_count`.
    pub max_map_count: Fact<u64>,
}

/// A line of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The file.
    pub path: String,
    /// The line, without names of users and groups.
    pub line: String,
}

/// A systemd service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Name of the service, as in `slurmd`.
    pub name: String,
    /// The effective `LimitMEMLOCK` of the unit and its drop-ins; none if unset.
    pub memlock: Option<Setting>,
}

/// Limit of a control group for one RDMA resource of one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaGrant {
    /// Directory of the control group.
    pub group: String,
    /// The RDMA device.
    pub device: String,
    /// `hca_handle` or `hca_object`.
    pub resource: String,
    /// Maximum.
    pub most: u64,
    /// Current use.
    pub used: Fact<u64>,
}
