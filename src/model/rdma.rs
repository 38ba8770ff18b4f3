//! RDMA devices as sysfs lists them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Fact, NodeFile};

/// One device of `/sys/class/infiniband`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RdmaPort {
    /// Port number, from 1.
    pub number: u32,
    /// As in `ACTIVE`, `DOWN`.
    pub state: Fact<String>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Fact<String>,
    /// As in `400 Gb/sec (4X NDR)`.
    pub rate: Fact<String>,
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
