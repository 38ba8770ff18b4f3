//! The platform: guest or bare metal, container, kernel.

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
        rule: "Whether this machine is a virtual machine.",
        sources: "/proc/cpuinfo, DMI, /sys/hypervisor, --platform",
        severity: Severity::Info,
        why: "The host owns the switch ports, the IOMMU and the link settings of a guest. What a \
            guest sees of them may differ from the hardware.",
        remedy: "Nothing to fix. Run gdr on the host for what the guest cannot see.",
        references: &[
            "https://www.freedesktop.org/software/systemd/man/latest/systemd-detect-virt.html",
        ],
        explained_by: &[],
        reads: &[],
        judge: guest,
    },
    Check {
        id: "platform.container",
        rule: "A container has the device nodes of the machine's GPUs and NICs, and sees their \
            entries in /sys.",
        sources: "/proc/self/ns, /proc/self/mountinfo, /proc/self/uid_map, /dev",
        severity: Severity::Warn,
        why: "A container sees only the device nodes that it was given. Without its node a GPU or \
            NIC does not exist for the container's programs.",
        remedy: "Add the nodes: --device, or the GPU and RDMA device plugins.",
        references: &["https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/"],
        explained_by: &[],
        reads: &[],
        judge: container,
    },
    Check {
        id: "platform.lockdown",
        rule: "Kernel lockdown does not block the driver or a repair.",
        sources: "/sys/kernel/security/lockdown, the firmware's variable SecureBoot",
        severity: Severity::Warn,
        why: "A locked-down kernel loads only signed modules and lets nobody write configuration \
            space: an unsigned driver or gdrdrv does not load, and setpci is rejected.",
        remedy: "Sign the modules and enroll the key, clear ACS bits by kernel parameters instead of \
            setpci, or turn off Secure Boot.",
        references: &["https://man7.org/linux/man-pages/man7/kernel_lockdown.7.html"],
        explained_by: &[],
        reads: &[],
        judge: lockdown,
    },
    Check {
        id: "platform.kernel",
        rule: "What this kernel release supports of GPUDirect, and that the driver knows its DMA operations.",
        sources: "/proc/sys/kernel/osrelease, driver version",
        severity: Severity::Info,
        why: "mlx5 registers dma-bufs since 5.12 and accepts them as queue memory since 6.1; \
            pci=config_acs= handles several ports since 6.15. Vendors backport some of this to \
            older releases. Kernel 6.19 replaced .map_resource by .map_phys, which the driver asks before it maps a peer's memory: \
            580.94.16 to 580.94.18, 580.126.09, 590.48.01, 595.44.02 and later releases of these branches know it.",
        remedy: "Use nvidia-peermem with an older kernel, or a newer kernel; with 6.19 and later a driver that knows .map_phys.",
        references: &[
            "https://docs.kernel.org/driver-api/dma-buf.html",
            "https://docs.kernel.org/admin-guide/kernel-parameters.html",
            "https://github.com/aws/aws-ofi-nccl/pull/618",
            "https://github.com/NVIDIA/NV-Kernels/pull/63",
            "https://github.com/NVIDIA/NV-Kernels/pull/324",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/conftest.sh",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.119.02/kernel-open/nvidia/nv-dma.c",
        ],
        explained_by: &[],
        reads: &[],
        judge: kernel,
    },
    Check {
        id: "platform.cma",
        rule: "How much memory is reserved for contiguous allocations (CMA), whose pages cannot \
            stay pinned.",
        sources: "/proc/meminfo: CmaTotal, CmaFree; /proc/cmdline",
        severity: Severity::Info,
        why: "The kernel moves pages out of this memory before it pins them. If it cannot, memory \
            registration fails with ENOMEM although locked memory is unlimited.",
        remedy: "If registrations fail this way, boot with cma=0 and without kho=on.",
        references: &["https://docs.kernel.org/core-api/pin_user_pages.html"],
        explained_by: &[],
        reads: &[],
        judge: cma,
    },
];
