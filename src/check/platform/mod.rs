//! What the machine is: a guest, a container.

mod container;
mod guest;

use super::Check;
use crate::model::Severity;
use container::container;
use guest::guest;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "platform.guest",
        rule: "Whether this is a virtual machine, whose host decides what it cannot.",
        sources: "/proc/cpuinfo, DMI, /sys/hypervisor, --platform",
        severity: Severity::Info,
        why: "Switch ports, IOMMU and link settings of a guest are its host's; what is seen inside may not be what is there.",
        cure: "Nothing to mend. Run gdr on the host for what the guest cannot see.",
        references: &["https://www.freedesktop.org/software/systemd/man/latest/systemd-detect-virt.html"],
        judge: guest,
    },
    Check {
        id: "platform.container",
        rule: "A container has the nodes of the machine's GPUs and NICs.",
        sources: "/proc/self/ns, /dev",
        severity: Severity::Warn,
        why: "A container sees the nodes it was given. A GPU or NIC without its node is not there for its programs, whatever the machine has.",
        cure: "Add the nodes: --device, or the GPU and RDMA device plugins.",
        references: &["https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/"],
        judge: container,
    },
];
