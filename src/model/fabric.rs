//! GPU interconnects beyond PCI Express: the services for NVLink switches, and the device nodes for memory sharing
//! between machines.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fact, NodeFile};

/// The parts of a fabric that files show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fabric {
    /// systemd units, by name.
    pub units: BTreeMap<String, Unit>,
    /// Nodes in `/dev/nvidia-caps-imex-channels`; known and empty if there are none.
    pub imex_channels: Fact<Vec<NodeFile>>,
    /// ib_umad is loaded; on newer systems the fabric manager uses it to reach a ConnectX.
    pub umad: Fact<bool>,
    /// Version of the fabric manager's package, as in `580.159.04`; `None` if no package database that gdr reads has
    /// one.
    #[serde(default)]
    pub manager_version: Fact<Option<String>>,
    /// The machines that IMEX is to connect; `None` without such a file.
    #[serde(default)]
    pub imex_nodes: Fact<Option<ImexNodes>>,
    /// State of IMEX's daemon in its own words, such as READY; `None` if its control program is not there or says none.
    #[serde(default)]
    pub imex_state: Fact<Option<String>>,
}

/// IMEX's nodes file. Its addresses are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImexNodes {
    pub path: String,
    /// Lines that name a node.
    pub count: usize,
    /// Lines that name a node again.
    pub repeated: usize,
    /// This machine is one of them.
    pub own: Fact<bool>,
}

impl Fabric {
    /// The unit that configures NVLink switches.
    pub const MANAGER: &'static str = "nvidia-fabricmanager.service";
    /// The unit for memory sharing between machines.
    pub const IMEX: &'static str = "nvidia-imex.service";
    /// The unit that keeps the driver's state while no process uses a GPU.
    pub const PERSISTENCE: &'static str = "nvidia-persistenced.service";
    /// The units that gdr reads.
    pub const UNITS: [&'static str; 3] = [Self::MANAGER, Self::IMEX, Self::PERSISTENCE];
}

/// A systemd unit, as files show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Unit {
    /// The unit file exists.
    pub installed: Fact<bool>,
    /// The unit starts at boot.
    pub enabled: Fact<bool>,
    /// The unit has a control group: it is running.
    pub running: Fact<bool>,
    /// Settings of the persistence unit; none if it is not installed.
    pub lines: Fact<Option<UnitLines>>,
}

/// Settings from a unit file and its drop-ins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitLines {
    /// The effective `ExecStart`.
    pub start: Option<String>,
    /// The unit names a target that wants it, so it can be enabled. Other units are started by something else, such as
    /// a device.
    pub installable: bool,
}

impl Unit {
    /// State of the unit, in words.
    pub fn words(&self) -> String {
        match (&self.installed, &self.enabled, &self.running) {
            (_, _, Fact::Known(true)) => "running".to_owned(),
            (Fact::Known(false), _, _) => "not installed".to_owned(),
            (_, Fact::Known(true), Fact::Known(false)) => "enabled, not running".to_owned(),
            (_, Fact::Known(false), Fact::Known(false)) => "not enabled, not running".to_owned(),
            (_, Fact::Known(true), _) => "enabled".to_owned(),
            (Fact::Known(true), _, _) => "installed".to_owned(),
            (Fact::Unknown(why), _, _) => why.phrase().to_owned(),
        }
    }
}
