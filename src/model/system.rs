//! The machine around the devices: driver, kernel, process, platform.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Fact, IdList};

/// The header of a report: for a reader to recognise the machine, never for a verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Where the facts come from: `live`, or the directory that was read.
    pub source: String,
    /// Host name.
    pub name: Option<String>,
    /// Operating system, as in `Debian GNU/Linux 12`.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// CPU brand.
    pub cpu: Option<String>,
    /// Logical CPUs.
    pub cpus: Option<u64>,
    /// Memory, bytes.
    pub memory: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its CPUs; empty for a node that is memory alone.
    pub cpus: IdList,
}

/// The NVIDIA driver as the kernel shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Driver {
    /// The first line of `/proc/driver/nvidia/version`; none where the driver is not loaded.
    pub version_line: Fact<Option<String>>,
    /// `/sys/module/nvidia/version`; none where the module is not loaded.
    pub module_version: Fact<Option<String>>,
    /// `/proc/driver/nvidia/params` by name, values as printed with quotes taken off; none where it is not there.
    pub params: Fact<Option<BTreeMap<String, String>>>,
    /// `/proc/driver/nvidia/gpus/*/information` by address.
    pub gpus: Fact<BTreeMap<Bdf, DriverGpu>>,
}

impl Driver {
    /// The version of the loaded driver, as in `580.159.04`; none where it is not loaded.
    ///
    /// Debian names the module `nvidia-current`: then the proc file alone knows it.
    pub fn version(&self) -> Fact<Option<String>> {
        match (&self.module_version, &self.version_line) {
            (Fact::Known(Some(version)), _) => Fact::Known(Some(version.clone())),
            (_, Fact::Known(Some(line))) => {
                Fact::Known(Some(version_in(line).unwrap_or(line).to_owned()))
            }
            (Fact::Known(None), Fact::Known(None)) => Fact::Known(None),
            (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
        }
    }
}

fn version_in(line: &str) -> Option<&str> {
    line.split_ascii_whitespace()
        .find(|word| word.contains('.') && word.split('.').all(|part| part.parse::<u32>().is_ok()))
}

/// One GPU as the driver's proc files show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverGpu {
    /// `Model`.
    pub model: Option<String>,
    /// `GPU UUID`.
    pub uuid: Option<String>,
    /// `Device Minor`: N of `/dev/nvidiaN`.
    pub minor: Option<u32>,
}

/// A loaded kernel module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// Who uses it.
    pub users: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// `/proc/sys/kernel/osrelease`.
    pub release: Fact<String>,
    /// `/proc/cmdline`.
    pub command_line: Fact<String>,
    /// `/proc/modules`; built-ins are not in it.
    pub modules: Fact<Vec<Module>>,
    /// Character devices of `/proc/devices`: name to majors.
    pub char_devices: Fact<BTreeMap<String, Vec<u32>>>,
    /// Type of each IOMMU group asked about, as in `DMA-FQ`, `identity`.
    pub iommu_groups: BTreeMap<u32, Fact<String>>,
    /// The PCI functions of each of those groups that translates.
    #[serde(default)]
    pub iommu_members: BTreeMap<u32, Fact<Vec<IommuMember>>>,
    /// The IOMMUs in `/sys/class/iommu`.
    pub iommus: Fact<Vec<String>>,
    /// The contiguous memory allocator's share of memory; none where this kernel has none.
    #[serde(default)]
    pub cma: Fact<Option<Cma>>,
}

/// A function in an IOMMU group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IommuMember {
    /// Its address, or its name where it is no PCI function.
    pub name: String,
    /// The driver that holds it; none where none does.
    pub driver: Fact<Option<String>>,
}

/// Memory that the contiguous memory allocator holds, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cma {
    /// All of it.
    pub total: u64,
    /// What nobody uses.
    pub free: u64,
}

/// Peer memory clients: the memory path `nvidia-peermem` opens for RDMA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerMemory {
    /// `/sys/module/nvidia_peermem` is there.
    pub nvidia_peermem: Fact<bool>,
    /// `/sys/module/nv_peer_mem` is there: the old module of MLNX_OFED.
    pub nv_peer_mem: Fact<bool>,
    /// The clients in `/sys/kernel/mm/memory_peers`, as in `nv_mem`; none where the RDMA stack has no such interface.
    pub clients: Fact<Option<Vec<String>>>,
    /// `/sys/module/nv_peer_mem/version`; none where that module is not loaded.
    #[serde(default)]
    pub nv_peer_mem_version: Fact<Option<String>>,
    /// The parameter `peerdirect_support` of nvidia_peermem; none where the module is not loaded or older than it.
    #[serde(default)]
    pub peerdirect_support: Fact<Option<String>>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeFile {
    pub path: String,
    /// What is there; none where the path does not exist.
    pub state: Fact<Option<NodeState>>,
}

/// What a device node is and whether this process may open it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeState {
    /// It is a character device.
    pub character: bool,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Permission bits.
    pub mode: u32,
    /// This process may read and write it, by its permissions; unknown for a recorded machine.
    pub usable: Fact<bool>,
}

/// The gdrdrv kernel module of gdrcopy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gdrdrv {
    /// `/dev/gdrdrv`.
    pub node: Option<NodeFile>,
    /// `/sys/module/gdrdrv/version`; none where the module is not loaded.
    pub version: Fact<Option<String>>,
    /// `/proc/driver/gdrdrv/params` by name; none where the module is not loaded or older than that file (2.5).
    #[serde(default)]
    pub params: Fact<Option<BTreeMap<String, String>>>,
}

/// This process, as `/proc/self` shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Soft limit of locked memory in bytes; none means unlimited.
    pub memlock_soft: Fact<Option<u64>>,
    /// Hard limit of locked memory in bytes; none means unlimited.
    pub memlock_hard: Fact<Option<u64>>,
    /// Effective capabilities.
    pub capabilities: Fact<u64>,
    /// Effective user id.
    pub uid: Fact<u32>,
    /// The user namespace is the initial one: its id map is the identity over all ids.
    pub initial_user_namespace: Fact<bool>,
    /// CPUs this process may run on.
    pub cpus_allowed: Fact<IdList>,
}

impl Process {
    /// Number of the capability to lock memory.
    pub const CAP_IPC_LOCK: u32 = 14;
    /// Number of the capability to administer the system.
    pub const CAP_SYS_ADMIN: u32 = 21;

    /// Whether it holds this capability in the initial user namespace, which is what the kernel's `capable()` asks.
    pub fn capable(&self, capability: u32) -> Fact<bool> {
        match (&self.capabilities, &self.initial_user_namespace) {
            (Fact::Known(bits), _) if bits >> capability & 1 == 0 => Fact::Known(false),
            (_, Fact::Known(false)) => Fact::Known(false),
            (Fact::Known(_), Fact::Known(true)) => Fact::Known(true),
            (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
        }
    }
}

/// What the machine is: bare metal, guest, container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Platform {
    /// `hypervisor` is among the CPU's flags (x86).
    pub hypervisor_flag: Fact<bool>,
    /// The CPU's architecture: x86_64, aarch64, ppc64le.
    pub architecture: Fact<String>,
    /// DMI system manufacturer and product; none where the firmware has no such table.
    pub dmi_vendor: Fact<Option<String>>,
    /// DMI product name.
    pub dmi_product: Fact<Option<String>>,
    /// `/sys/hypervisor/type`; none where there is none.
    pub hypervisor_type: Fact<Option<String>>,
    /// Devices whose vendor is a hypervisor's: virtio and the like.
    pub paravirtual_devices: usize,
    /// Marks of a container: what was found, in words.
    pub container_marks: Fact<Vec<String>>,
    /// What the user said with `--platform`.
    pub asserted: Option<PlatformKind>,
    /// The kernel's lockdown: `none`, `integrity`, `confidentiality`; none where this kernel has no lockdown.
    #[serde(default)]
    pub lockdown: Fact<Option<String>>,
    /// Whether the firmware booted in secure mode; none where there is no such firmware variable.
    #[serde(default)]
    pub secure_boot: Fact<Option<bool>>,
    /// What is mounted at and below `/sys`.
    #[serde(default)]
    pub sys_mounts: Fact<Vec<Mount>>,
    /// systemd runs this machine (`/run/systemd/system` is there).
    #[serde(default)]
    pub systemd: Fact<bool>,
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    /// Where.
    pub at: String,
    /// Its kind, as in `sysfs`, `tmpfs`.
    pub kind: String,
    /// Nothing can be written there.
    pub read_only: bool,
}

/// Where the machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlatformKind {
    /// On the hardware itself.
    BareMetal,
    /// In a virtual machine.
    Guest,
}

impl Platform {
    /// Manufacturers and products that are hypervisors', as systemd-detect-virt lists them.
    const HYPERVISORS: [&'static str; 14] = [
        "QEMU",
        "KVM",
        "VMware",
        "VirtualBox",
        "innotek",
        "Xen",
        "Bochs",
        "Parallels",
        "BHYVE",
        "Amazon EC2",
        "Google Compute Engine",
        "OpenStack",
        "Virtual Machine",
        "Firecracker",
    ];

    /// What the machine is, as far as its facts tell, and the fact that decided.
    ///
    /// On x86 the CPU flag decides. Elsewhere DMI does, then paravirtual devices.
    pub fn kind(&self) -> (Fact<PlatformKind>, String) {
        if let Some(kind) = self.asserted {
            return (Fact::Known(kind), "--platform".to_owned());
        }
        let guest = Fact::Known(PlatformKind::Guest);
        if self.hypervisor_flag == Fact::Known(true) {
            return (guest, "/proc/cpuinfo: flag hypervisor".to_owned());
        }
        if let Some(kind) = self.hypervisor_type.present() {
            return (guest, format!("/sys/hypervisor/type: {kind}"));
        }
        for (file, text) in [
            ("sys_vendor", &self.dmi_vendor),
            ("product_name", &self.dmi_product),
        ] {
            if let Some(text) = text.present()
                && !text.contains(".metal")
                && Self::HYPERVISORS.iter().any(|name| text.contains(name))
            {
                return (guest, format!("/sys/class/dmi/id/{file}: {text}"));
            }
        }
        // A CPU without the flag decides first: DPUs show virtio functions to the bare metal that they sit in.
        if self.paravirtual_devices > 0 && self.hypervisor_flag != Fact::Known(false) {
            let count = self.paravirtual_devices;
            return (guest, format!("{count} paravirtual PCI devices"));
        }
        match (&self.hypervisor_flag, &self.dmi_vendor) {
            (Fact::Known(false), _) => (
                Fact::Known(PlatformKind::BareMetal),
                "/proc/cpuinfo: no flag hypervisor".to_owned(),
            ),
            (_, Fact::Known(Some(vendor))) => (
                Fact::Known(PlatformKind::BareMetal),
                format!("/sys/class/dmi/id/sys_vendor: {vendor}"),
            ),
            (Fact::Unknown(why), _) => (
                Fact::Unknown(*why),
                "/proc/cpuinfo, /sys/class/dmi/id".to_owned(),
            ),
            (_, _) => (
                Fact::default(),
                "/proc/cpuinfo, /sys/class/dmi/id".to_owned(),
            ),
        }
    }

    /// Whether it is known to be a guest.
    pub fn is_guest(&self) -> bool {
        self.kind().0 == Fact::Known(PlatformKind::Guest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtio_makes_a_guest_only_where_the_cpu_does_not_deny_it() {
        let mut platform = Platform {
            paravirtual_devices: 2,
            ..Platform::default()
        };
        assert!(platform.is_guest(), "Arm has no such flag");
        platform.hypervisor_flag = Fact::Known(true);
        assert!(platform.is_guest());
        // BlueField emulates virtio block and network functions for its host.
        platform.hypervisor_flag = Fact::Known(false);
        assert_eq!(platform.kind().0, Fact::Known(PlatformKind::BareMetal));
        // A guest whose hypervisor hides the flag still has its hypervisor's name.
        platform.dmi_vendor = Fact::Known(Some("QEMU".to_owned()));
        assert!(platform.is_guest());
    }
}
