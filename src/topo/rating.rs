//! The rating of a GPU and a NIC, with its reason.

use crate::model::{Fact, PciClass, Row, Verdict};

/// Rates a pair.
pub fn rate(me: &Row, partner: &Row, class: PciClass, is_guest: bool) -> (Verdict, String) {
    let letters = class.letters();
    if is_guest {
        let reason = format!(
            "{letters} in the guest's tree; the host's path is unknown; gdr probe rdma proves it"
        );
        return (Verdict::Unknown, reason);
    }
    let below_one_bridge = matches!(class, PciClass::Pix | PciClass::Pxb);
    if (me.integrated || partner.integrated) && !below_one_bridge {
        let reason = format!(
            "{letters}, beside an integrated GPU, whose memory is the CPU's: every slot is as near, and data passes through host memory"
        );
        return (Verdict::LikelyGood, reason);
    }
    // Below a common bridge PCI Express is the path: `Topology::rdma_path`.
    if is_by_socket(me, partner) && !below_one_bridge {
        let reason = format!("{letters}, on one socket: connected by NVLink-C2C, not PCI Express");
        return (Verdict::Good, reason);
    }
    let (verdict, reason) = match class {
        PciClass::Pix => (Verdict::Good, "below one switch"),
        PciClass::Pxb => (Verdict::Good, "below one root port, through several switches"),
        PciClass::Phb => {
            (Verdict::LikelyGood, "through one host bridge, whose bandwidth depends on the CPU")
        }
        PciClass::Node => (Verdict::Bad, "between host bridges of one NUMA node"),
        PciClass::Sys => (Verdict::Bad, "across the interconnect between NUMA nodes"),
        PciClass::NodeOrSys => (Verdict::Bad, "between host bridges, whose NUMA nodes are unknown"),
    };
    (verdict, format!("{letters}, {reason}"))
}

/// NICs of their socket are near to coherent GPUs, over NVLink-C2C, whatever the PCI class.
pub fn is_by_socket(a: &Row, b: &Row) -> bool {
    (a.coherent || b.coherent)
        && matches!((&a.numa, &b.numa), (Fact::Known(Some(a)), Fact::Known(Some(b))) if a == b)
}
