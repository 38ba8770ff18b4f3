//! What is known of each PCI function: where it sits, what it is, how its attributes read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Config, Fact, IdList, Link};

/// One PCI function as sysfs lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PciDevice {
    /// Its address.
    pub bdf: Bdf,
    /// Where it hangs, from the target of its link in `/sys/bus/pci/devices`.
    pub place: Fact<Place>,
    /// What it is: from configuration space, from the attribute files where that cannot be read.
    pub ids: Fact<Ids>,
    /// `numa_node`; none where the kernel says −1.
    pub numa_node: Fact<Option<u32>>,
    /// What configuration space says.
    pub config: Config,
    /// More attributes, read only for the devices that a verdict may rest on.
    pub attributes: Option<Box<Attributes>>,
}

/// The way from the root bus to a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The root bus: the last `pciDDDD:BB` of the path.
    pub root: RootBus,
    /// Whether `root` is known to be a root bus. A text that lists functions without the bridges above them ends at the
    /// outermost bus it tells of, and what is above that it does not say.
    #[serde(default = "known_root", skip_serializing_if = "is_known_root")]
    pub rooted: bool,
    /// The bridges above the device, the outermost first.
    pub bridges: Vec<Bdf>,
}

impl Place {
    /// The most bridges between a root bus and a device: real machines have fewer than twelve. A longer chain is not read,
    /// because each pair of devices costs as many steps as there are bridges above them.
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
    /// Bus number.
    pub bus: u8,
}

impl std::fmt::Display for RootBus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("pci{:04x}:{:02x}", self.domain, self.bus))
    }
}

/// Vendor, device and class of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ids {
    /// Vendor id.
    pub vendor: u16,
    /// Device id; none where the source gives a name that no list has.
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

impl Ids {
    /// NVIDIA's vendor id.
    pub const NVIDIA: u16 = 0x10de;
    /// Mellanox' vendor id, of all ConnectX and BlueField parts.
    pub const MELLANOX: u16 = 0x15b3;

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

    /// A network controller of NVIDIA's: ConnectX, BlueField.
    pub fn is_nvidia_nic(&self) -> bool {
        self.vendor == Self::MELLANOX && self.base_class() == 0x02
    }

    /// An NVSwitch that shows itself as a bridge of class 0680.
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

    /// Made by a hypervisor: virtio, QEMU, VMware, VirtualBox, Xen, Hyper-V. Only virtio is met elsewhere too, where a
    /// DPU emulates it.
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
            && matches!(
                self.device,
                Some(0x2342 | 0x2345 | 0x2348 | 0x2941 | 0x31c2)
            )
    }

    /// An NVIDIA display function older than Pascal: Fermi, Kepler, Maxwell.
    ///
    /// By pci.ids Pascal's device ids are 0x15f0 to 0x15ff (GP100) and 0x1b00 to 0x1d7f, and those of Volta and later lie
    /// above; between the two are Maxwell's GM204 and GM200.
    pub fn is_before_pascal(&self) -> bool {
        self.is_nvidia_gpu() && matches!(self.device, Some(0..0x15f0 | 0x1600..0x1b00))
    }

    /// The Data Direct function of a ConnectX-8 (pci.ids: 15b3:2100).
    pub fn is_data_direct(&self) -> bool {
        self.vendor == Self::MELLANOX && self.device == Some(0x2100)
    }
}

/// Attribute files of one function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attributes {
    /// The bound driver's name, from the link `driver`.
    pub driver: Fact<Option<String>>,
    /// `local_cpulist`.
    pub local_cpus: Fact<IdList>,
    /// Base address windows with their sizes, from `resource`.
    pub resources: Fact<Vec<Resource>>,
    /// The IOMMU group's number, from the link `iommu_group`; none where the device is in no group.
    pub iommu_group: Fact<Option<u32>>,
    /// The physical function of a virtual one, from the link `physfn`.
    pub physical_function: Fact<Option<Bdf>>,
    /// The link as `current_link_*` and `max_link_*` tell it, for those who may not read capabilities.
    pub link: Fact<Option<LinkState>>,
    /// Errors that the kernel counted since boot; none where it counts none of this function's.
    #[serde(default)]
    pub errors: Fact<Option<ErrorCounts>>,
}

/// Errors of one function since boot, by the kernel's names (`aer_dev_fatal`, `aer_dev_correctable`); those that never
/// happened are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCounts {
    /// Fatal ones, as in `MalfTLP`.
    pub fatal: BTreeMap<String, u64>,
    /// Corrected ones, as in `BadTLP`.
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
    /// Whether the window is prefetchable memory.
    pub fn is_prefetchable_memory(&self) -> bool {
        self.flags & 0x2200 == 0x2200
    }
}

/// A link's speed and width now and at best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkState {
    /// Now. An idle GPU's link sleeps at 2.5 GT/s.
    pub current: Link,
    /// At best: of one function what it supports, of a hop what both of its ends do.
    pub max: Link,
}

impl LinkState {
    /// Bytes a second one way at full speed over the lanes that are up, before packet headers; none where the speed
    /// is not one of the specification's.
    pub fn bandwidth(&self) -> Option<u64> {
        self.max.speed.bytes_per_second(self.current.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_tell_what_is_older_than_pascal() {
        let gpu = |device| Ids {
            vendor: Ids::NVIDIA,
            device: Some(device),
            class: 0x03_0200,
        };
        // K40m, K80, M60, M40; P100, P40, V100, T4, H100.
        for old in [0x1023, 0x102d, 0x13f2, 0x17fd] {
            assert!(gpu(old).is_before_pascal(), "{old:x}");
        }
        for new in [0x15f8, 0x1b38, 0x1db4, 0x1eb8, 0x2330] {
            assert!(!gpu(new).is_before_pascal(), "{new:x}");
        }
    }
}
