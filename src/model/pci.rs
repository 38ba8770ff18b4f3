//! PCI functions: location, ids, configuration space and attributes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nvidia_gpus::NVIDIA_GPUS;
use super::{Bdf, Config, Fact, IdList, Link};

/// One PCI function, as sysfs lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PciDevice {
    /// PCI address.
    pub bdf: Bdf,
    /// Location, from the target of its link in `/sys/bus/pci/devices`.
    pub place: Fact<PciPath>,
    /// Vendor, device and class: from configuration space, or from the attribute files if that cannot be read.
    pub ids: Fact<Ids>,
    /// `numa_node`; none if the kernel reports −1.
    pub numa_node: Fact<Option<u32>>,
    /// Decoded configuration space.
    pub config: Config,
    /// Further attributes, read only for devices that checks use.
    pub attributes: Option<Box<Attributes>>,
}

/// Location of a device: the bridges between it and its root bus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PciPath {
    /// Root bus: the last `pciDDDD:BB` of the path.
    pub root: RootBus,
    /// True if `root` is known to be a root bus. A dump that lists functions without the bridges above them ends at
    /// the outermost bus that it mentions.
    #[serde(default = "known_root", skip_serializing_if = "is_known_root")]
    pub rooted: bool,
    /// Bridges above the device, outermost first.
    pub bridges: Vec<Bdf>,
}

impl PciPath {
    /// Maximum number of bridges between a root bus and a device; real machines have fewer than twelve. It bounds the
    /// cost of comparing each pair of devices.
    pub const MAX_BRIDGES: usize = 32;
}

fn known_root() -> bool {
    true
}

fn is_known_root(rooted: &bool) -> bool {
    *rooted
}

/// A root bus, `pciDDDD:BB` in sysfs: one host bridge of the root complex.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct RootBus {
    /// Domain (segment).
    pub domain: u32,
    pub bus: u8,
}

impl std::fmt::Display for RootBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("pci{:04x}:{:02x}", self.domain, self.bus))
    }
}

/// Vendor, device and class of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Ids {
    pub vendor: u16,
    /// Device id; none if the source gives a name that is not in the id list.
    pub device: Option<u16>,
    /// Class code, 24 bits: base, sub, programming interface.
    pub class: u32,
}

impl std::fmt::Display for Ids {
    /// Vendor and device as lspci writes them: `10de:2330`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.device {
            Some(device) => write!(f, "{:04x}:{device:04x}", self.vendor),
            None => write!(f, "{:04x}:?", self.vendor),
        }
    }
}

/// True for drivers that only reserve a function for a virtual machine or a user-space driver: `vfio-pci`,
/// `nvgrace-gpu-vfio-pci`, `mlx5_vfio_pci`, `pci-stub`, Xen's `pciback`.
pub fn is_passthrough_driver(name: &str) -> bool {
    name.contains("vfio") || name == "pci-stub" || name.contains("pciback")
}

impl PciDevice {
    /// The passthrough driver that holds the function.
    pub fn passthrough_driver(&self) -> Option<&str> {
        let driver = self.attributes.as_ref()?.driver.present()?;
        is_passthrough_driver(driver).then_some(driver)
    }
}

impl Ids {
    /// NVIDIA's vendor id.
    pub const NVIDIA: u16 = 0x10de;
    /// Mellanox's vendor id, of all ConnectX and BlueField parts.
    pub const MELLANOX: u16 = 0x15b3;
    /// Broadcom's vendor id.
    pub const BROADCOM: u16 = 0x14e4;
    /// Intel's vendor id.
    pub const INTEL: u16 = 0x8086;

    pub fn base_class(&self) -> u8 {
        self.class.to_be_bytes()[1]
    }

    /// Base class and subclass, as in `0302`.
    pub fn class_and_subclass(&self) -> u16 {
        (self.class >> 8) as u16
    }

    /// An NVIDIA display or 3D controller.
    pub fn is_nvidia_gpu(&self) -> bool {
        self.vendor == Self::NVIDIA && self.base_class() == 0x03
    }

    /// An NVIDIA network controller: ConnectX, BlueField.
    pub fn is_nvidia_nic(&self) -> bool {
        self.vendor == Self::MELLANOX && self.base_class() == 0x02
    }

    /// An NVSwitch with a PCI bridge class of 0680.
    pub fn is_nvswitch(&self) -> bool {
        self.vendor == Self::NVIDIA && self.class_and_subclass() == 0x0680
    }

    /// A PCI-to-PCI bridge: class 0604.
    pub fn is_bridge(&self) -> bool {
        self.class_and_subclass() == 0x0604
    }

    /// An NVM Express controller: class 0108.
    pub fn is_nvme(&self) -> bool {
        self.class_and_subclass() == 0x0108
    }

    /// A device of a hypervisor: virtio, QEMU, VMware, VirtualBox, Xen, Hyper-V. A DPU may emulate virtio on bare
    /// metal.
    pub fn is_paravirtual(&self) -> bool {
        self.is_virtio() || matches!(self.vendor, 0x1b36 | 0x15ad | 0x80ee | 0x5853 | 0x1414)
    }

    /// A virtio device.
    pub fn is_virtio(&self) -> bool {
        self.vendor == 0x1af4
    }

    /// NVIDIA GPUs whose memory is coherent with the CPU over NVLink-C2C: GH200 (10de:2342, 2345, 2348), GB200 (2941)
    /// and GB300 (31c2), the parts of Linux's drivers/vfio/pci/nvgrace-gpu.
    pub fn is_coherent_gpu(&self) -> bool {
        self.vendor == Self::NVIDIA
            && matches!(self.device, Some(0x2342 | 0x2345 | 0x2348 | 0x2941 | 0x31c2))
    }

    /// The name of a GPU that the open kernel modules drive, in their README.
    pub fn listed_gpu(&self) -> Option<&'static str> {
        let device = self.device.filter(|_| self.vendor == Self::NVIDIA)?;
        let at = NVIDIA_GPUS.binary_search_by_key(&device, |(id, _)| *id).ok()?;
        NVIDIA_GPUS.get(at).map(|(_, name)| *name)
    }

    /// An NVIDIA GPU from Blackwell's ids on (0x2900, GB100) that is in no list: nothing is known of its rules. Its neighbors in the
    /// numbering may be another generation.
    pub fn is_unknown_gpu(&self) -> bool {
        // pci.ids of 2025-07-11: B100, and GB102.
        let is_named = matches!(self.device, Some(0x2920 | 0x29bc));
        let is_new = self.device.is_some_and(|device| device >= 0x2900);
        self.is_nvidia_gpu() && is_new && !is_named && self.listed_gpu().is_none()
    }

    /// An Elastic Fabric Adapter. Linux v6.12, drivers/infiniband/hw/efa/efa_main.c: 1d0f:efa0 to efa3; efa4 is the next generation.
    pub fn is_efa(&self) -> bool {
        self.vendor == 0x1d0f && matches!(self.device, Some(0xefa0..=0xefa4))
    }

    /// NVIDIA GPUs on the chip package of the CPU, whose memory is the CPU's: GB10 of DGX Spark (10de:2e12), which has no GPUDirect
    /// RDMA (<https://forums.developer.nvidia.com/t/dgx-spark-gpudirect-rdma/348787/6>).
    pub fn is_integrated_gpu(&self) -> bool {
        self.vendor == Self::NVIDIA && self.device == Some(0x2e12)
    }

    /// NVIDIA GPUs of laptops and of embedded boards, which are soldered: by their names, and the parts with Mobile in pci.ids whose names
    /// do not say it.
    pub fn is_laptop_gpu(&self) -> bool {
        let names = ["Laptop GPU", "Max-Q", "Embedded GPU", "MX4", "MX5"];
        let is_named =
            self.listed_gpu().is_some_and(|name| names.iter().any(|word| name.contains(word)));
        let others = [
            // TU104 to TU117.
            0x1ef5, 0x1f11, 0x1f15, 0x1f51, 0x1f55, 0x1fbb, 0x1fdd, 0x1ff9, 0x2192, 0x21d1,
            // GA107: GeForce RTX 2050.
            0x25a7, 0x25a9, 0x25ad, 0x25ed,
        ];
        is_named
            || self.vendor == Self::NVIDIA && self.device.is_some_and(|id| others.contains(&id))
    }

    /// NVIDIA GPUs that are modules of a board (SXM), not cards: by pci.ids the parts with SXM in their names, and H800, H20, H100, B100,
    /// B200 and B300, which exist as PCIe cards under other ids.
    pub fn is_module_gpu(&self) -> bool {
        self.vendor == Self::NVIDIA
            && matches!(
                self.device,
                // P100, V100
                Some(
                    0x15f9 | 0x1db1 | 0x1db5 | 0x1db8 | 0x1df5
                    // A100, A800
                    | 0x20b0 | 0x20b2 | 0x20b3 | 0x20bd | 0x20f3
                    // H800, H20, H100, H200
                    | 0x2324 | 0x2328 | 0x2329 | 0x232c | 0x2330 | 0x2335
                        ..=0x2339 | 0x233d
                    // B200, B100, B300
                    | 0x2901 | 0x2920 | 0x29bc | 0x3182
                )
            )
    }

    /// An NVIDIA display function older than Pascal: Fermi, Kepler, Maxwell.
    ///
    /// By pci.ids Pascal's device ids are 0x15f0 to 0x15ff (GP100) and 0x1b00 to 0x1d7f, and those of Volta and later lie
    /// above; between the two are Maxwell's GM204 and GM200.
    pub fn is_before_pascal(&self) -> bool {
        self.is_nvidia_gpu() && matches!(self.device, Some(0..0x15f0 | 0x1600..0x1b00))
    }

    /// A virtual function of a NIC with RDMA, by a device id of its own. Linux v6.12, drivers/net/ethernet: `MLX4_PCI_DEV_IS_VF` in
    /// mellanox/mlx4/main.c, `MLX5_PCI_DEV_IS_VF` in mellanox/mlx5/core/main.c, `NETXTREME_*_VF` in broadcom/bnxt/bnxt.c,
    /// `IAVF_DEV_ID_ADAPTIVE_VF` in intel/iavf.
    pub fn is_virtual_function(&self) -> bool {
        let Some(device) = self.device else {
            return false;
        };
        match self.vendor {
            Self::MELLANOX => matches!(
                device,
                0x1002
                    | 0x1004
                    | 0x1012
                    | 0x1014
                    | 0x1016
                    | 0x1018
                    | 0x101a
                    | 0x101c
                    | 0x101e
                    | 0xa2d3
            ),
            Self::BROADCOM => matches!(
                device,
                0x1606..=0x1609
                    | 0x16bd
                    | 0x16c1..=0x16c5
                    | 0x16cb
                    | 0x16d3
                    | 0x16dc
                    | 0x16e1
                    | 0x16e5
                    | 0x16e6
                    | 0x1806..=0x1809
                    | 0x1819
                    | 0xd800
            ),
            Self::INTEL => device == 0x1889,
            _ => false,
        }
    }

    /// The Data Direct function of a ConnectX-8 (pci.ids: 15b3:2100).
    pub fn is_data_direct(&self) -> bool {
        self.vendor == Self::MELLANOX && self.device == Some(0x2100)
    }
}

/// Attribute files of one PCI function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attributes {
    /// Name of the bound driver, from the link `driver`.
    pub driver: Fact<Option<String>>,
    /// `local_cpulist`.
    pub local_cpus: Fact<IdList>,
    /// BARs with their sizes, from `resource`.
    pub resources: Fact<Vec<Resource>>,
    /// IOMMU group, from the link `iommu_group`; none if the device is in no group.
    pub iommu_group: Fact<Option<u32>>,
    /// Physical function of a virtual function, from the link `physfn`.
    pub physical_function: Fact<Option<Bdf>>,
    /// Link state from `current_link_*` and `max_link_*`, which any user may read.
    pub link: Fact<Option<LinkState>>,
    /// Errors since boot; none if the kernel does not count errors of this function.
    #[serde(default)]
    pub errors: Fact<Option<ErrorCounts>>,
}

/// Errors of one function since boot, by the kernel's names (`aer_dev_fatal` and so on); zero counts are
/// left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCounts {
    /// Fatal errors, as in `MalfTLP`.
    pub fatal: BTreeMap<String, u64>,
    /// Errors that were not corrected and left the link up, as in `CmpltTO`.
    #[serde(default)]
    pub nonfatal: BTreeMap<String, u64>,
    /// Corrected errors, as in `BadTLP`.
    pub correctable: BTreeMap<String, u64>,
}

/// One line of `resource`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resource {
    /// Number of the base address register.
    pub bar: u8,
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub size: u64,
    /// Kernel resource flags (`IORESOURCE_*`): 0x200 memory, 0x2000 prefetchable, 0x100000 64-bit.
    pub flags: u64,
}

impl Resource {
    /// True if the BAR is prefetchable memory.
    pub fn is_prefetchable_memory(&self) -> bool {
        self.flags & 0x2200 == 0x2200
    }
}

/// Current and maximum speed and width of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkState {
    /// Current state. The link of an idle GPU may run at 2.5 GT/s.
    pub current: Link,
    /// Maximum: of one function what it supports, of a hop what both ends support.
    pub max: Link,
}

impl LinkState {
    /// Bytes per second in one direction at maximum speed with the active lanes, before packet headers; none for a
    /// speed that the specification does not define.
    pub fn bandwidth(&self) -> Option<u64> {
        self.max.speed.bytes_per_second(self.current.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_gpus_older_than_pascal() {
        let gpu = |device| Ids { vendor: Ids::NVIDIA, device: Some(device), class: 0x03_0200 };
        // K40m, K80, M60, M40; P100, P40, V100, T4, H100.
        for old in [0x1023, 0x102d, 0x13f2, 0x17fd] {
            assert!(gpu(old).is_before_pascal(), "{old:x}");
        }
        for new in [0x15f8, 0x1b38, 0x1db4, 0x1eb8, 0x2330] {
            assert!(!gpu(new).is_before_pascal(), "{new:x}");
        }
    }
}
