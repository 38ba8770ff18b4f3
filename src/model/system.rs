//! The system: driver, kernel, process, platform.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Bdf, Fact, IdList, Why};

/// Identification of the machine, for the header of a report. No check uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Source of the facts: `live`, or the directory or file that was read.
    pub source: String,
    /// When a recorded machine was recorded (UTC, RFC 3339); absent for other sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// Source that the recording had: a replay judges the machine as it was judged there.
    #[serde(skip)]
    pub recorded_from: Option<String>,
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
    /// When it started (UTC, RFC 3339), of a live machine: counters from before are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted: Option<String>,
}

impl Host {
    /// The machine that a file holds, recorded at this time.
    #[must_use]
    pub fn replayed(mut self, file: &str, taken: &str) -> Self {
        self.recorded_from = Some(std::mem::replace(&mut self.source, file.to_owned()));
        self.recorded = Some(taken.to_owned());
        self
    }

    /// As it was when it was recorded.
    #[must_use]
    pub fn original(mut self) -> Self {
        self.source = self.origin().to_owned();
        (self.recorded, self.recorded_from) = (None, None);
        self
    }

    /// The source of the facts, also if they were recorded: `live` or a directory.
    pub fn origin(&self) -> &str {
        self.recorded_from.as_deref().unwrap_or(&self.source)
    }

    /// File or directory, and the time of the recording; none for this machine.
    pub fn recording(&self) -> Option<String> {
        match (self.source.as_str(), &self.recorded) {
            ("live", None) => None,
            (source, None) => Some(source.to_owned()),
            (source, Some(taken)) => Some(format!("{source}, {taken}")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumaNode {
    pub id: u32,
    /// Its CPUs; empty for a node with memory only.
    pub cpus: IdList,
}

/// The NVIDIA driver as the kernel shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Driver {
    /// First line of `/proc/driver/nvidia/version`; none if the driver is not loaded.
    pub version_line: Fact<Option<String>>,
    /// `/sys/module/nvidia/version`; none if the module is not loaded.
    pub module_version: Fact<Option<String>>,
    /// `/proc/driver/nvidia/params` by name, values without quotes; none if it does not exist.
    pub params: Fact<Option<BTreeMap<String, String>>>,
    /// `/proc/driver/nvidia/gpus/*/information`, by address.
    pub gpus: Fact<BTreeMap<Bdf, DriverGpu>>,
}

impl Driver {
    /// Version of the loaded driver, as in `580.159.04`; none if it is not loaded.
    ///
    /// Debian names the module `nvidia-current`: then only the proc file has the version.
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

/// One GPU in the driver's proc files.
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
    /// Name, with underscores.
    pub name: String,
    /// Modules that use it.
    pub users: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kernel {
    /// `/proc/sys/kernel/osrelease`.
    pub release: Fact<String>,
    /// `/proc/cmdline`.
    pub command_line: Fact<String>,
    /// `/proc/modules`; without built-in modules.
    pub modules: Fact<Vec<Module>>,
    /// Character devices of `/proc/devices`: majors by name.
    pub char_devices: Fact<BTreeMap<String, Vec<u32>>>,
    /// Type of each relevant IOMMU group, as in `DMA-FQ`, `identity`.
    pub iommu_groups: BTreeMap<u32, Fact<String>>,
    /// PCI functions of each of those groups that translates addresses.
    #[serde(default)]
    pub iommu_members: BTreeMap<u32, Fact<Vec<IommuMember>>>,
    /// The IOMMUs in `/sys/class/iommu`.
    pub iommus: Fact<Vec<String>>,
    /// Memory of the contiguous memory allocator; none if this kernel has none.
    #[serde(default)]
    pub cma: Fact<Option<Cma>>,
}

/// A function in an IOMMU group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IommuMember {
    /// PCI address, or name of a device that is not a PCI function.
    pub name: String,
    /// The driver; none if the function is not bound.
    pub driver: Fact<Option<String>>,
}

/// Memory of the contiguous memory allocator, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cma {
    pub total: u64,
    pub free: u64,
}

/// Peer memory clients: the memory path `peermem` of RDMA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerMemory {
    /// `/sys/module/nvidia_peermem` exists.
    pub nvidia_peermem: Fact<bool>,
    /// `/sys/module/nv_peer_mem` exists: the old module of MLNX_OFED.
    pub nv_peer_mem: Fact<bool>,
    /// Clients in `/sys/kernel/mm/memory_peers`, as in `nv_mem`; none if the RDMA stack has no such interface.
    pub clients: Fact<Option<Vec<String>>>,
    /// `/sys/module/nv_peer_mem/version`; none if that module is not loaded.
    #[serde(default)]
    pub nv_peer_mem_version: Fact<Option<String>>,
    /// Parameter `peerdirect_support` of nvidia_peermem; none if the module is not loaded or too old.
    #[serde(default)]
    pub peerdirect_support: Fact<Option<String>>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeFile {
    pub path: String,
    /// State of the node; none if it does not exist.
    pub state: Fact<Option<NodeState>>,
}

/// Type and permissions of a device node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeState {
    /// It is a character device.
    pub character: bool,
    pub major: u32,
    pub minor: u32,
    /// Permission bits.
    pub mode: u32,
    /// This process may open it for reading and writing; unknown for a recorded machine.
    pub usable: Fact<bool>,
}

/// The gdrdrv kernel module of gdrcopy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gdrdrv {
    /// `/dev/gdrdrv`.
    pub node: Option<NodeFile>,
    /// `/sys/module/gdrdrv/version`; none if the module is not loaded.
    pub version: Fact<Option<String>>,
    /// `/proc/driver/gdrdrv/params` by name; none if the module is not loaded or older than 2.5.
    #[serde(default)]
    pub params: Fact<Option<BTreeMap<String, String>>>,
}

/// This process, from `/proc/self`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Soft limit of locked memory in bytes; none means unlimited.
    pub memlock_soft: Fact<Option<u64>>,
    /// Hard limit of locked memory in bytes; none means unlimited.
    pub memlock_hard: Fact<Option<u64>>,
    /// Soft limit of open files; none means unlimited.
    #[serde(default)]
    pub open_files: Fact<Option<u64>>,
    /// Effective capabilities.
    pub capabilities: Fact<u64>,
    /// Effective user id.
    pub uid: Fact<u32>,
    /// The process is in the initial user namespace: the id map is the identity over all ids.
    pub initial_user_namespace: Fact<bool>,
}

impl Process {
    /// Number of CAP_IPC_LOCK.
    pub const CAP_IPC_LOCK: u32 = 14;
    /// Number of CAP_SYS_ADMIN.
    pub const CAP_SYS_ADMIN: u32 = 21;

    /// True if it has the capability in the initial user namespace, which the kernel's `capable()` requires.
    pub fn capable(&self, capability: u32) -> Fact<bool> {
        match (&self.capabilities, &self.initial_user_namespace) {
            (Fact::Known(bits), _) if bits >> capability & 1 == 0 => Fact::Known(false),
            (_, Fact::Known(false)) => Fact::Known(false),
            (Fact::Known(_), Fact::Known(true)) => Fact::Known(true),
            (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
        }
    }
}

/// Platform of the machine: bare metal, guest, container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Platform {
    /// The CPU flags contain `hypervisor` (x86).
    pub hypervisor_flag: Fact<bool>,
    /// CPU architecture: x86_64, aarch64, ppc64le.
    pub architecture: Fact<String>,
    /// DMI system manufacturer; none if the firmware has no such table.
    pub dmi_vendor: Fact<Option<String>>,
    pub dmi_product: Fact<Option<String>>,
    /// `/sys/hypervisor/type`; none if it does not exist.
    pub hypervisor_type: Fact<Option<String>>,
    /// Number of devices with the vendor id of a hypervisor, such as virtio.
    pub paravirtual_devices: usize,
    /// Signs of a container, in words.
    pub container_marks: Fact<Vec<String>>,
    /// Value of `--platform`.
    pub asserted: Option<PlatformKind>,
    /// Kernel lockdown: `none`, `integrity`, `confidentiality`; none if this kernel has no lockdown.
    #[serde(default)]
    pub lockdown: Fact<Option<String>>,
    /// Secure boot is on; none if there is no such firmware variable.
    #[serde(default)]
    pub secure_boot: Fact<Option<bool>>,
    /// Mounts at and below `/sys`, and those that may hold `/dev/shm`.
    #[serde(default)]
    pub mounts: Fact<Vec<Mount>>,
    /// systemd is the init system (`/run/systemd/system` exists).
    #[serde(default)]
    pub systemd: Fact<bool>,
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mount {
    /// Mount point.
    pub at: String,
    /// File system type, as in `sysfs`, `tmpfs`.
    pub kind: String,
    /// Mounted read-only.
    pub read_only: bool,
    /// The option `size` of a tmpfs, in bytes; none if it has its default, half of the memory.
    #[serde(default)]
    pub size: Option<u64>,
}

/// Where the machine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlatformKind {
    /// On hardware.
    BareMetal,
    /// In a virtual machine.
    Guest,
}

impl Platform {
    /// DMI manufacturers and products of hypervisors, from systemd-detect-virt.
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

    /// Platform kind, and the fact that decided.
    ///
    /// On x86 the CPU flag decides; elsewhere DMI, then paravirtual devices.
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
        for (file, text) in [("sys_vendor", &self.dmi_vendor), ("product_name", &self.dmi_product)]
        {
            if let Some(text) = text.present()
                && !text.contains(".metal")
                && Self::HYPERVISORS.iter().any(|name| text.contains(name))
            {
                return (guest, format!("/sys/class/dmi/id/{file}: {text}"));
            }
        }
        // A CPU without the flag decides first: a DPU shows virtio functions to a bare-metal host.
        if self.paravirtual_devices > 0 && self.hypervisor_flag != Fact::Known(false) {
            let count = self.paravirtual_devices;
            return (guest, format!("{count} paravirtual PCI devices"));
        }
        match (&self.hypervisor_flag, &self.dmi_vendor) {
            (Fact::Known(false), _) => (
                Fact::Known(PlatformKind::BareMetal),
                "/proc/cpuinfo: no flag hypervisor".to_owned(),
            ),
            // CPUs other than x86 have no such flag.
            (_, Fact::Known(Some(vendor))) if self.architecture.known().is_some() => (
                Fact::Known(PlatformKind::BareMetal),
                format!("/sys/class/dmi/id/sys_vendor: {vendor}"),
            ),
            (Fact::Unknown(why), _) => {
                (Fact::Unknown(*why), "/proc/cpuinfo, /sys/class/dmi/id".to_owned())
            }
            (_, _) => (Fact::default(), "/proc/cpuinfo, /sys/class/dmi/id".to_owned()),
        }
    }

    /// True if the kind is unknown because the CPU's flags could not be read, so that the tree may be a hypervisor's. A source that has
    /// neither them nor DMI describes hardware alone.
    pub fn may_be_guest(&self) -> bool {
        let is_unread = |why: Option<Why>| !matches!(why, None | Some(Why::NotCovered));
        let mut dmi = [&self.dmi_vendor, &self.dmi_product].into_iter();
        let has_dmi = dmi.any(|text| text.present().is_some() || is_unread(text.why()));
        let is_silent =
            self.architecture.known().is_none() && (has_dmi || is_unread(self.architecture.why()));
        is_silent && self.kind().0.known().is_none()
    }

    /// True if it is known to be a guest.
    pub fn is_guest(&self) -> bool {
        self.kind().0 == Fact::Known(PlatformKind::Guest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_flags_leave_the_kind_open() {
        let text = || Fact::Known(Some("Example Corp.".to_owned()));
        let mut platform = Platform { dmi_vendor: text(), ..Platform::default() };
        assert!(platform.may_be_guest());
        platform.dmi_vendor = Fact::Unknown(Why::Denied);
        assert!(platform.may_be_guest());
        (platform.dmi_vendor, platform.dmi_product) = (Fact::default(), text());
        assert!(platform.may_be_guest());
        platform.architecture = Fact::Known("aarch64".to_owned());
        assert!(!platform.may_be_guest(), "Arm has no such flag");
        let hardware = Platform { dmi_vendor: Fact::Known(None), ..Platform::default() };
        assert!(!hardware.may_be_guest() && !Platform::default().may_be_guest());
        let denied = Platform { architecture: Fact::Unknown(Why::Denied), ..hardware };
        assert!(denied.may_be_guest());
    }

    #[test]
    fn virtio_implies_guest_unless_cpu_flag_is_clear() {
        let mut platform = Platform { paravirtual_devices: 2, ..Platform::default() };
        assert!(platform.is_guest(), "Arm has no such flag");
        platform.hypervisor_flag = Fact::Known(true);
        assert!(platform.is_guest());
        // BlueField emulates virtio block and network functions for its host.
        platform.hypervisor_flag = Fact::Known(false);
        assert_eq!(platform.kind().0, Fact::Known(PlatformKind::BareMetal));
        // The hypervisor hides the flag, but DMI names it.
        platform.dmi_vendor = Fact::Known(Some("QEMU".to_owned()));
        assert!(platform.is_guest());
    }
}
