//! RDMA devices: their functions, nodes, ports and libraries.

mod device;

use super::Check;
use crate::model::Severity;
pub use device::{cards, device, provider};

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[Check {
    id: "rdma.device",
    rule: "At least one NIC does RDMA, and this user may open it.",
    sources: "/sys/class/infiniband, /dev/infiniband",
    severity: Severity::Warn,
    why: "GPUDirect RDMA is a NIC's work. A device without a verbs node, or whose node this user may not open, is not there for a program.",
    cure: "Load the NIC's RDMA driver and ib_uverbs; hand the nodes to the container; let users open them.",
    references: &["https://docs.kernel.org/infiniband/user_verbs.html"],
    judge: device,
}];
