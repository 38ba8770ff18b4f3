//! What the kernel says of the network interfaces of RDMA ports, and which counters rise.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// The answers of the kernel, by netlink and ethtool's ioctl.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Network {
    /// The interfaces of RDMA ports, by name.
    #[serde(default)]
    pub interfaces: BTreeMap<String, NetworkInterface>,
    /// What rose between two readings; none without `--live`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<CounterGrowth>,
}

/// A network interface of an RDMA port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkInterface {
    /// The RDMA port, as in `mlx5_0:1`.
    pub port: String,
    /// Counters of the driver (`ethtool -S`) that are known to gdr and not zero; none if the driver has no such counter.
    #[serde(default)]
    pub counters: Fact<Option<BTreeMap<String, u64>>>,
    /// How packets of different priorities are treated; none if the driver has no DCB.
    #[serde(default)]
    pub priorities: Fact<Option<Priorities>>,
    /// Pause frames for the whole link; none if the driver has no such setting.
    #[serde(default)]
    pub pause: Fact<Option<LinkPause>>,
}

/// Data center bridging of an interface (`dcb` of iproute2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Priorities {
    /// Priorities with flow control (PFC); none if the driver does not say.
    pub pfc: Option<Vec<u8>>,
    /// The NIC takes a packet's priority from its DSCP, not from its VLAN tag.
    pub trusts_dscp: bool,
    /// The priority of a DSCP, where one is set.
    pub dscp: BTreeMap<u8, u8>,
    /// The traffic class of each priority; none if the driver does not say.
    pub classes: Option<Vec<u8>>,
}

/// Pause frames for a whole link (`ethtool -a`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkPause {
    /// The NIC stops for pause frames that arrive.
    pub receives: bool,
    /// It sends them.
    pub sends: bool,
}

/// Counters that rose between two readings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CounterGrowth {
    /// Time between the readings.
    pub seconds: f64,
    /// How much each counter that is known to gdr rose, by port (`mlx5_0:1`), network interface and PCI function. What has an entry
    /// was read; its counters without one did not rise.
    pub rises: BTreeMap<String, BTreeMap<String, u64>>,
}

impl CounterGrowth {
    /// True if the first reading is that of an earlier report.
    pub fn is_since_report(&self) -> bool {
        self.seconds > 60.0
    }
}
