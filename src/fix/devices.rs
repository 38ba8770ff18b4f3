//! Fixes that choose devices or ports need to know all of them: a device of unknown kind may be a GPU or a NIC.

use super::desired::NoChange;
use crate::check::Ctx;
use crate::model::Fact;

/// An error if a PCI function's kind, or the place of an RDMA device, cannot be read.
pub fn all_known(ctx: &Ctx<'_>) -> Result<(), NoChange> {
    const PCI: &str = "/sys/bus/pci/devices";
    const RDMA: &str = "/sys/class/infiniband";
    let devices = match &ctx.facts.pci {
        Fact::Known(_) => ctx.facts.devices(),
        Fact::Unknown(why) => return Err(NoChange::unread(PCI, *why)),
    };
    for device in devices {
        if let Fact::Unknown(why) = device.ids {
            let source = format!("{PCI}/{}/config", device.bdf);
            return Err(NoChange::unread(&source, why));
        }
    }
    let devices = match &ctx.facts.rdma {
        Fact::Known(devices) => devices,
        Fact::Unknown(why) => return Err(NoChange::unread(RDMA, *why)),
    };
    for device in devices {
        if let Fact::Unknown(why) = device.place {
            let source = format!("{RDMA}/{}/device", device.name);
            return Err(NoChange::unread(&source, why));
        }
    }
    Ok(())
}
