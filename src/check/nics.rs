//! The RDMA devices that are NICs, and their drivers.

use crate::model::{Fact, Facts, Ids, PciDevice, RdmaDevice, Why};

/// The RDMA devices that are NICs on the PCI bus.
pub fn rdma_nics(facts: &Facts) -> impl Iterator<Item = &RdmaDevice> {
    facts.rdma.known().into_iter().flatten().filter(|device| is_nic(device))
}

fn is_nic(device: &RdmaDevice) -> bool {
    let software = matches!(device.parent, Fact::Known(Some(_)));
    !software && device.management != Fact::Known(true) && !device.place.is_absent()
}

/// The kernel driver of a NIC's PCI function, as in `mlx5_core`.
pub fn driver(facts: &Facts, device: &RdmaDevice) -> Fact<String> {
    let function = device.place.present().and_then(|bdf| facts.device(*bdf));
    match function
        .and_then(|function| function.attributes.as_ref())
        .map(|attributes| &attributes.driver)
    {
        Some(Fact::Known(Some(driver))) => Fact::Known(driver.clone()),
        Some(Fact::Unknown(why)) => Fact::Unknown(*why),
        Some(Fact::Known(None)) | None => Fact::Unknown(Why::NotCovered),
    }
}

/// NVIDIA's NICs on the PCI bus that no virtual machine holds, also those that are not RDMA devices.
pub fn nvidia_nics(facts: &Facts) -> impl Iterator<Item = &PciDevice> {
    let nics = facts.devices().iter();
    nics.filter(|device| {
        device.ids.known().is_some_and(Ids::is_nvidia_nic) && device.passthrough_driver().is_none()
    })
}
