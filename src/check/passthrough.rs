//! PCI functions passed through to a virtual machine or to a user-space driver.

use crate::model::{Facts, PciDevice};

/// True for drivers that only reserve a function for passthrough: `vfio-pci`, `nvgrace-gpu-vfio-pci`,
/// `mlx5_vfio_pci`, `pci-stub`, Xen's `pciback`.
pub fn hands_away(driver: &str) -> bool {
    driver.contains("vfio") || driver == "pci-stub" || driver.contains("pciback")
}

/// The passthrough driver of a function.
pub fn holder(device: &PciDevice) -> Option<&str> {
    let driver = device.attributes.as_ref()?.driver.present()?;
    hands_away(driver).then_some(driver)
}

/// The GPUs that are not passed through.
pub fn own_gpus(facts: &Facts) -> impl Iterator<Item = &PciDevice> {
    facts.gpus().filter(|gpu| holder(gpu).is_none())
}

/// The functions known to be passed through.
pub fn passed_through(facts: &Facts) -> impl Iterator<Item = &PciDevice> {
    facts
        .devices()
        .iter()
        .filter(|device| holder(device).is_some())
}
