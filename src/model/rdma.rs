//! RDMA devices as sysfs lists them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Fact, NodeFile};

/// One device of `/sys/class/infiniband`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaDevice {
    /// Its name, as in `mlx5_0`.
    pub name: String,
    /// The PCI function it is, or for a software device the function of the netdev it runs over.
    pub place: Fact<Option<Bdf>>,
    /// The netdev of a software device (`parent`); none where the device is hardware.
    pub parent: Fact<Option<String>>,
    /// Its ports, by number.
    pub ports: Fact<Vec<RdmaPort>>,
    /// Its `/dev/infiniband/uverbsN`; none where sysfs lists none.
    pub uverbs: Fact<Option<NodeFile>>,
    /// The PCI function's vital product data names it as a management function of an NVSwitch system.
    pub management: Fact<bool>,
    /// The physical function, where this is a virtual one.
    pub physical_function: Fact<Option<Bdf>>,
    /// Firmware version (`fw_ver`), as in `28.43.2026`; none where the driver shows none.
    #[serde(default)]
    pub firmware: Fact<Option<String>>,
    /// The chip (`hca_type`), as in `MT4129`; none where the driver shows none.
    #[serde(default)]
    pub chip: Fact<Option<String>>,
    /// The board (`board_id`), as in `MT_0000000838`; none where the driver shows none.
    #[serde(default)]
    pub board: Fact<Option<String>>,
    /// Settings of the firmware by name, as mlxconfig shows them; none where no tool that reads them is installed.
    #[serde(default)]
    pub settings: Fact<Option<BTreeMap<String, FirmwareSetting>>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaPort {
    /// Port number, from 1.
    pub number: u32,
    /// As in `ACTIVE`, `DOWN`.
    pub state: Fact<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Fact<String>,
    /// As in `400 Gb/sec (4X NDR)`.
    pub rate: Fact<String>,
    /// As in `LinkUp`, `Polling`, `Disabled`.
    #[serde(default)]
    pub physical_state: Fact<String>,
    /// The entries of its GID table that are not empty; read of active Ethernet ports.
    #[serde(default)]
    pub gids: Fact<Vec<RdmaGid>>,
}

/// One GID, without the address that it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaGid {
    /// Its index in the port's table.
    pub index: u32,
    /// How far its address reaches.
    pub reach: GidReach,
    /// As in `RoCE v2`, `IB/RoCE v1`.
    pub kind: Fact<String>,
    /// Its network interface; none where it has none.
    pub interface: Fact<Option<String>>,
    /// That interface is in this network namespace.
    pub here: Fact<bool>,
    /// That interface's MTU, where it is here.
    pub mtu: Fact<Option<u32>>,
}

/// How far an address reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GidReach {
    /// fe80::/10: the interface's own segment.
    LinkLocal,
    /// An IPv4 address, mapped into IPv6.
    Ipv4,
    /// Another IPv6 address.
    Ipv6,
}

/// A setting of a NIC's firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirmwareSetting {
    /// What the maker set, where the tool shows it.
    pub default: Option<String>,
    /// What the firmware runs with, where the tool shows it.
    pub current: Option<String>,
    /// What it runs with after the next reset.
    pub next: String,
}

/// The RDMA stack of the kernel, beside its devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaStack {
    /// Devices are shared among network namespaces (`netns_mode` of ib_core); none where the RDMA core is not loaded.
    pub shared: Fact<Option<bool>>,
    /// `/dev/infiniband/rdma_cm` is there: the connection manager, which not every program needs.
    pub connection_manager: Fact<bool>,
    /// `ofed_info` is there: the user space of MLNX_OFED or DOCA-OFED is installed.
    pub ofed: Fact<bool>,
}

impl RdmaDevice {
    /// From how many GPUs on a machine may be one whose NVSwitches are managed through an mlx5 function (HGX B200 and
    /// later; NVIDIA Fabric Manager's start script finds them by the same mark).
    pub const GPUS_OF_A_SWITCHED_SYSTEM: usize = 4;

    /// The mark of such a function in its vital product data, within the first 1024 bytes.
    pub const MANAGEMENT_MARK: &[u8] = b"SW_MNG";

    /// Whether vital product data hold that mark.
    pub fn is_marked_management(vpd: &[u8]) -> bool {
        let mark = Self::MANAGEMENT_MARK;
        vpd.windows(mark.len()).take(1024).any(|part| part == mark)
    }

    /// A key that sorts devices by the number in their names: `mlx5_2` before `mlx5_10`.
    pub fn natural(name: &str) -> (String, u64, String) {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse().unwrap_or(u64::MAX);
        (stem.to_owned(), number, name.to_owned())
    }
}
