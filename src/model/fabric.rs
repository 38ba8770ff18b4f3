//! What joins GPUs beyond PCI Express: the services that set NVLink switches up, and the nodes by which machines share memory.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fact, NodeFile};

/// The parts of a fabric that files show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fabric {
    /// Units of systemd, by name.
    pub units: BTreeMap<String, Unit>,
    /// The nodes in `/dev/nvidia-caps-imex-channels`; known and empty where there are none.
    pub imex_channels: Fact<Vec<NodeFile>>,
    /// ib_umad is there, through which the fabric manager of newer systems speaks to a ConnectX.
    pub umad: Fact<bool>,
}

impl Fabric {
    /// The unit that sets NVLink switches up.
    pub const MANAGER: &'static str = "nvidia-fabricmanager.service";
    /// The unit that shares memory between machines.
    pub const IMEX: &'static str = "nvidia-imex.service";
    /// The unit that keeps the driver's state while nobody uses a GPU.
    pub const PERSISTENCE: &'static str = "nvidia-persistenced.service";
    /// Those that are looked for.
    pub const UNITS: [&'static str; 3] = [Self::MANAGER, Self::IMEX, Self::PERSISTENCE];
}

/// A unit of systemd, as files show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Unit {
    /// There is a unit file.
    pub installed: Fact<bool>,
    /// It is started at boot.
    pub enabled: Fact<bool>,
    /// It has a control group: it runs.
    pub running: Fact<bool>,
    /// What it runs and what starts it, of the unit that keeps the driver's state; none where it is not installed.
    pub lines: Fact<Option<UnitLines>>,
}

/// What a unit's file and its drop-ins say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitLines {
    /// `ExecStart`, the one that counts.
    pub start: Option<String>,
    /// It says which target wants it, so that it can be enabled; one that does not is started by something else, such as
    /// a device.
    pub installable: bool,
}

impl Unit {
    /// What is known of it, in words.
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
