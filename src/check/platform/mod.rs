//! What the machine is: a guest, a container.

mod cma;
mod container;
mod guest;
mod kernel;
mod lockdown;

use super::Check;
use crate::model::Severity;
use cma::cma;
use container::container;
use guest::guest;
use kernel::kernel;
use lockdown::lockdown;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "platform.guest",
        rule: "Whether this is a virtual machine, whose host decides what it cannot.",
        sources: "/proc/cpuinfo, DMI, /sys/hypervisor, --platform",
        severity: Severity::Info,
        why: "Switch ports, IOMMU and link settings of a guest are its host's; what is seen inside may not be what is \
            there.",
        remedy: "Nothing to mend. Run gdr on the host for what the guest cannot see.",
        references: &[
            "https://www.freedesktop.org/software/systemd/man/latest/systemd-detect-virt.html",
        ],
        reads: &[],
        judge: guest,
    },
    Check {
        id: "platform.container",
        rule: "A container has the nodes of the machine's GPUs and NICs, and sees their part of /sys.",
        sources: "/proc/self/ns, /proc/self/mountinfo, /proc/self/uid_map, /dev",
        severity: Severity::Warn,
        why: "A container sees the nodes it was given. A GPU or NIC without its node is not there for its programs, \
            whatever the machine has.",
        remedy: "Add the nodes: --device, or the GPU and RDMA device plugins.",
        references: &["https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/"],
        reads: &[],
        judge: container,
    },
    Check {
        id: "platform.lockdown",
        rule: "The kernel's lockdown is not in the way of the driver, nor of a repair.",
        sources: "/sys/kernel/security/lockdown, the firmware's variable SecureBoot",
        severity: Severity::Warn,
        why: "A locked kernel loads signed modules only and lets nobody write configuration space: an unsigned driver \
            or gdrdrv does not load, and setpci is refused.",
        remedy: "Sign the modules and enrol the key, mend ports by kernel parameters instead of setpci, or switch Secure \
            Boot off.",
        references: &["https://man7.org/linux/man-pages/man7/kernel_lockdown.7.html"],
        reads: &[],
        judge: lockdown,
    },
    Check {
        id: "platform.kernel",
        rule: "What the kernel's release brings along for GPUDirect.",
        sources: "/proc/sys/kernel/osrelease",
        severity: Severity::Info,
        why: "mlx5 registers dma-bufs since 5.12 and takes them for queue memory since 6.1; pci=config_acs= works for \
            several ports since 6.15. Vendors carry some of it in older releases.",
        remedy: "Use nvidia-peermem on an older kernel, or a later kernel.",
        references: &[
            "https://docs.kernel.org/driver-api/dma-buf.html",
            "https://docs.kernel.org/admin-guide/kernel-parameters.html",
        ],
        reads: &[],
        judge: kernel,
    },
    Check {
        id: "platform.cma",
        rule: "How much memory is set aside for contiguous allocations, whose pages cannot stay pinned.",
        sources: "/proc/meminfo: CmaTotal, CmaFree; /proc/cmdline",
        severity: Severity::Info,
        why: "Pages in that memory are moved before they are pinned. Where that fails a registration answers ENOMEM, \
            though locked memory is unlimited.",
        remedy: "Boot with cma=0, and without kho=on, where registrations fail so.",
        references: &["https://docs.kernel.org/core-api/pin_user_pages.html"],
        reads: &[],
        judge: cma,
    },
];
