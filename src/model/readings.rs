//! Numbers and versions that a report carries besides its findings: for metrics, for rates, and to compare it with another report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::limited::{MAX_DEVICES, list, map};

/// What was read of one machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Readings {
    /// Versions by name, as in `driver`, `firmware of mlx5_0`.
    #[serde(default, deserialize_with = "map::<MAX_VERSIONS, _, _>")]
    pub versions: BTreeMap<String, String>,
    /// GPUs; null if their list is unknown.
    #[serde(default, deserialize_with = "devices")]
    pub gpus: Option<Vec<DeviceReading>>,
    /// NICs with RDMA; null if their list is unknown.
    #[serde(default, deserialize_with = "devices")]
    pub nics: Option<Vec<DeviceReading>>,
    /// Ports of these NICs.
    #[serde(default, deserialize_with = "list::<MAX_DEVICES, _, _>")]
    pub ports: Vec<PortReading>,
    /// Counters that are not zero, by port (`mlx5_0:1`), network interface and PCI function. What has an entry was read.
    #[serde(default, deserialize_with = "counts")]
    pub counters: Counts,
}

/// Counters by port, network interface or PCI function, and by name.
pub type Counts = BTreeMap<String, BTreeMap<String, u64>>;

/// Most versions, devices with counters, and counters of a device.
const MAX_VERSIONS: usize = 4_096;
const MAX_COUNTED: usize = 4_096;
const MAX_COUNTERS: usize = 256;

fn counts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Counts, D::Error> {
    #[derive(Deserialize)]
    struct Few(#[serde(deserialize_with = "map::<MAX_COUNTERS, _, _>")] BTreeMap<String, u64>);
    let all: BTreeMap<String, Few> = map::<MAX_COUNTED, _, _>(deserializer)?;
    Ok(all.into_iter().map(|(of, counters)| (of, counters.0)).collect())
}

fn devices<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<DeviceReading>>, D::Error> {
    #[derive(Deserialize)]
    struct Few(#[serde(deserialize_with = "list::<MAX_DEVICES, _, _>")] Vec<DeviceReading>);
    let devices: Option<Few> = Option::deserialize(deserializer)?;
    Ok(devices.map(|devices| devices.0))
}

/// A GPU or a NIC; null where something is unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceReading {
    /// Name, as in `GPU0`, `mlx5_0`.
    pub name: String,
    /// PCI address.
    pub bdf: Option<String>,
    pub model: Option<String>,
    /// Lanes of the link above it.
    pub width: Option<u8>,
    /// Lanes that both ends of the link support.
    pub max_width: Option<u8>,
    /// Speed of the link, GT/s. An idle GPU slows it down.
    pub speed: Option<f64>,
    /// Speed that both ends of the link support, GT/s.
    pub max_speed: Option<f64>,
    /// Size of BAR1, bytes; of a NIC null.
    pub bar1: Option<u64>,
    /// Bytes of BAR1 in use.
    pub bar1_used: Option<u64>,
}

/// A port of a NIC; null where something is unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortReading {
    /// NIC and number, as in `mlx5_0:1`.
    pub name: String,
    /// State, as in `ACTIVE`, `DOWN`.
    pub state: Option<String>,
    /// Rate, Gb/s.
    pub rate: Option<f64>,
}
