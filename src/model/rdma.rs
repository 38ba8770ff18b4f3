//! RDMA devices as sysfs lists them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Fact, NodeFile};

/// One device of `/sys/class/infiniband`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaDevice {
    /// Name, as in `mlx5_0`.
    pub name: String,
    /// Its PCI function; for a software device, the PCI function of the underlying netdev.
    pub place: Fact<Option<Bdf>>,
    /// Underlying netdev of a software device (`parent`); none for hardware.
    pub parent: Fact<Option<String>>,
    /// Ports, by number.
    pub ports: Fact<Vec<RdmaPort>>,
    /// `/dev/infiniband/uverbsN`; none if sysfs lists none.
    pub uverbs: Fact<Option<NodeFile>>,
    /// The vital product data mark it as a management function of an NVSwitch system.
    pub management: Fact<bool>,
    /// Physical function of a virtual function.
    pub physical_function: Fact<Option<Bdf>>,
    /// Network interfaces of its PCI function (`device/net`).
    #[serde(default)]
    pub interfaces: Fact<Vec<String>>,
    /// Interface with a default route: one of these, or a VLAN, bond or bridge above one; none if the default route leads elsewhere.
    #[serde(default)]
    pub default_route: Fact<Option<String>>,
    /// Interface over which it reaches the server of a network file system or of an NVMe controller: one of these, or a VLAN, bond or
    /// bridge above one; none if it reaches none. The interface of a file system that names no address (GPFS) is not known.
    #[serde(default)]
    pub storage: Fact<Option<StorageRoute>>,
    /// Firmware version (`fw_ver`), as in `28.43.2026`; none if the driver does not report it.
    #[serde(default)]
    pub firmware: Fact<Option<String>>,
    /// Chip (`hca_type`), as in `MT4129`; none if the driver does not report it.
    #[serde(default)]
    pub chip: Fact<Option<String>>,
    /// Board (`board_id`), as in `MT_0000000838`; none if the driver does not report it.
    #[serde(default)]
    pub board: Fact<Option<String>>,
    /// Firmware settings by name, as mlxconfig shows them; none if no tool that reads them is installed.
    #[serde(default)]
    pub settings: Fact<Option<BTreeMap<String, FirmwareSetting>>>,
}

impl RdmaDevice {
    /// The first active port, else the first port.
    pub fn main_port(&self) -> Option<&RdmaPort> {
        let ports = self.ports.known().map_or(&[][..], Vec::as_slice);
        let active = ports.iter().find(|port| port.is_active());
        active.or(ports.first())
    }
}

/// How a machine reaches network storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StorageRoute {
    pub interface: String,
    /// Type of the mount, or the NVMe transport, as in `nfs4`, `lustre`, `nvme-rdma`.
    pub kind: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaPort {
    /// Port number, from 1.
    pub number: u32,
    /// Port state, as in `ACTIVE`, `DOWN`.
    pub state: Fact<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Fact<String>,
    /// Rate, as in `400 Gb/sec (4X NDR)`.
    pub rate: Fact<String>,
    /// Physical state, as in `LinkUp`, `Polling`, `Disabled`.
    #[serde(default)]
    pub physical_state: Fact<String>,
    /// Entries of the GID table that are not empty; read for active Ethernet ports only.
    #[serde(default)]
    pub gids: Fact<Vec<RdmaGid>>,
    /// Counters that are known to gdr and not zero; none if the kernel shows no such counter. Read for active ports of physical functions.
    #[serde(default)]
    pub counters: Fact<Option<BTreeMap<String, u64>>>,
    /// Settings of RoCE; read where counters are, for Ethernet only.
    #[serde(default)]
    pub roce: RoceSettings,
}

impl RdmaPort {
    /// True if the port is known to be up.
    pub fn is_active(&self) -> bool {
        self.state.known().is_some_and(|state| state == "ACTIVE")
    }

    /// The rate without the kernel's remark on lanes, as in `400 Gb/s`; none if it is unknown.
    pub fn speed(&self) -> Option<String> {
        let (number, _) = self.rate.known()?.split_once(" Gb/sec")?;
        Some(format!("{number} Gb/s"))
    }
}

/// How a port marks RoCE packets, and which priorities react to congestion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoceSettings {
    /// Traffic class that the driver gives every packet, whatever the program chose (`tc/N/traffic_class` of MLNX_OFED); none if it
    /// is not set.
    pub traffic_class: Fact<Option<u8>>,
    /// Traffic class of connections of the connection manager (`default_roce_tos`); none if it is not set.
    pub manager_class: Fact<Option<u8>>,
    /// Priorities whose congestion is notified to the sender (`ecn/roce_np/enable` of MLNX_OFED); none if the driver does not say.
    pub notifies: Fact<Option<Vec<u8>>>,
    /// Priorities that slow down when they are notified (`ecn/roce_rp/enable`); none if the driver does not say.
    pub reacts: Fact<Option<Vec<u8>>>,
    /// DSCP of congestion notifications (`cc_params/np_cnp_dscp`); none if the driver does not say.
    pub notification_dscp: Fact<Option<u8>>,
}

/// One GID, without its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaGid {
    /// Index in the GID table of the port.
    pub index: u32,
    /// Scope of the address.
    pub reach: GidReach,
    /// GID type, as in `RoCE v2`, `IB/RoCE v1`.
    pub kind: Fact<String>,
    /// Network interface; none if it has none.
    pub interface: Fact<Option<String>>,
    /// The interface is in this network namespace.
    pub here: Fact<bool>,
    /// MTU of the interface, if it is in this namespace.
    pub mtu: Fact<Option<u32>>,
}

/// Scope of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GidReach {
    /// fe80::/10: the local segment.
    LinkLocal,
    /// An IPv4 address, mapped into IPv6.
    Ipv4,
    /// Another IPv6 address.
    Ipv6,
}

/// A setting of a NIC's firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirmwareSetting {
    /// Current value, if the tool shows it.
    pub current: Option<String>,
    /// Value after the next reset.
    pub next: String,
}

/// The RDMA stack of the kernel, apart from the devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaStack {
    /// Network namespaces share the devices (`netns_mode` of ib_core); none if the RDMA core is not loaded.
    pub shared: Fact<Option<bool>>,
    /// `/dev/infiniband/rdma_cm` exists: the connection manager, which only some programs need.
    pub connection_manager: Fact<bool>,
    /// `ofed_info` exists: the user space of MLNX_OFED or DOCA-OFED is installed.
    pub ofed: Fact<bool>,
    /// `/sys/module/mlx5_core/version`, as in `5.4-1.0.3`; none if the module is not loaded or is that of a kernel without such versions.
    #[serde(default)]
    pub mlx5_version: Fact<Option<String>>,
    /// `/sys/module/efa/version` of Amazon's module; none if it is not loaded or is the kernel's own.
    #[serde(default)]
    pub efa_version: Fact<Option<String>>,
}

/// A NIC is a virtual function of SR-IOV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualFunction {
    /// Its physical function; null where it is not to be seen, as in a virtual machine.
    pub physical_function: Option<Bdf>,
}

impl VirtualFunction {
    /// As in `virtual function of 0000:04:00.0`.
    pub fn label(self) -> String {
        match self.physical_function {
            Some(physical) => format!("virtual function of {physical}"),
            None => "virtual function".to_owned(),
        }
    }

    /// As in `a virtual function of 0000:04:00.0`.
    pub fn phrase(self) -> String {
        match self.physical_function {
            Some(_) => format!("a {}", self.label()),
            None => format!("a {} whose physical function is on the host", self.label()),
        }
    }
}

impl RdmaDevice {
    /// Minimum number of GPUs of a machine whose NVSwitches may be managed through an mlx5 function (HGX B200 and
    /// later; NVIDIA Fabric Manager's start script uses the same mark).
    pub const GPUS_OF_A_SWITCHED_SYSTEM: usize = 4;

    /// Mark of such a function in its vital product data, within the first 1024 bytes.
    pub const MANAGEMENT_MARK: &[u8] = b"SW_MNG";

    /// True if the vital product data contain the mark.
    pub fn is_marked_management(vpd: &[u8]) -> bool {
        let mark = Self::MANAGEMENT_MARK;
        vpd.windows(mark.len()).take(1024).any(|part| part == mark)
    }

    /// Sort key that orders devices by the number in their names: `mlx5_2` before `mlx5_10`.
    pub fn natural(name: &str) -> (String, u64, String) {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = name[stem.len()..].parse().unwrap_or(u64::MAX);
        (stem.to_owned(), number, name.to_owned())
    }
}
