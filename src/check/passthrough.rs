//! PCI functions passed through to a virtual machine or to a user-space driver.

use crate::model::{Facts, PciDevice};

/// The GPUs that are not passed through.
pub fn own_gpus(facts: &Facts) -> impl Iterator<Item = &PciDevice> {
    facts.gpus().filter(|gpu| gpu.passthrough_driver().is_none())
}

/// The functions known to be passed through.
pub fn passed_through(facts: &Facts) -> impl Iterator<Item = &PciDevice> {
    facts.devices().iter().filter(|device| device.passthrough_driver().is_some())
}
