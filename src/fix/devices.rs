//! Fixes that choose devices or ports need to know all of them: a device of unknown kind may be a GPU or a NIC.

use super::desired::{NoChange, open};
use crate::check::Ctx;
use crate::model::{Bdf, Fact, Facts};

/// An error if a PCI function's kind, or the place of an RDMA device, cannot be read, or if another source names a device that the
/// list of PCI functions lacks. A device that no source names is one that the machine does not have.
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
    match unlisted(ctx.facts) {
        Some((bdf, source)) => {
            let message = format!("{PCI} has no {bdf}, which {source} names");
            let needs = "that device on the PCI bus: see gpu.present and the kernel log";
            Err(NoChange::Unknown(open(&message, Some(needs))))
        }
        None => Ok(()),
    }
}

/// A function that is not in the list of PCI functions, and the source that names it.
fn unlisted(facts: &Facts) -> Option<(Bdf, String)> {
    if facts.partial {
        return None;
    }
    let nvml = facts.nvml().into_iter().flat_map(|nvml| &nvml.gpus);
    let driver = facts.driver.gpus.known().into_iter().flatten();
    let rdma = facts.rdma.known().into_iter().flatten();
    let nics = rdma.filter_map(|nic| Some((*nic.place.present()?, nic.name.clone())));
    let above = facts.devices().iter().filter_map(|device| {
        let bridges = &device.place.known()?.bridges;
        let missing = bridges.iter().find(|bridge| facts.device(**bridge).is_none())?;
        Some((*missing, format!("the link of {}", device.bdf)))
    });
    (nvml.map(|gpu| (gpu.bdf, "NVML".to_owned())))
        .chain(driver.map(|(bdf, _)| (*bdf, "/proc/driver/nvidia/gpus".to_owned())))
        .chain(nics)
        .chain(above)
        .find(|(bdf, _)| facts.device(*bdf).is_none())
}
