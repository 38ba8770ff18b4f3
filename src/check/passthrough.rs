//! Functions that the host has handed away: to a virtual machine, or to a program that drives them itself.

use crate::model::{Facts, PciDevice};

/// Whether a driver of this name only holds a function for somebody else: `vfio-pci`, `nvgrace-gpu-vfio-pci`,
/// `mlx5_vfio_pci`, `pci-stub`, Xen's `pciback`.
pub fn hands_away(driver: &str) -> bool {
    driver.contains("vfio") || driver == "pci-stub" || driver.contains("pciback")
}

/// The driver that a function is handed away by.
pub fn holder(device: &PciDevice) -> Option<&str> {
    let driver = device.attributes.as_ref()?.driver.present()?;
    hands_away(driver).then_some(driver)
}

/// The GPUs that are this machine's own.
pub fn own_gpus(facts: &Facts) -> impl Iterator<Item = &PciDevice> {
    facts.gpus().filter(|gpu| holder(gpu).is_none())
}

/// The functions that are handed away, as far as their drivers were read.
pub fn handed(facts: &Facts) -> impl Iterator<Item = &PciDevice> {
    facts
        .devices()
        .iter()
        .filter(|device| holder(device).is_some())
}
