//! Names of PCI devices, read when the first is asked for.

use std::cell::OnceCell;
use std::path::Path;

use crate::pci::PciNames;
use crate::world::World;

/// Where distributions keep pci.ids.
const FILES: [&str; 3] = [
    "/usr/share/misc/pci.ids",
    "/usr/share/hwdata/pci.ids",
    "/usr/share/pci.ids",
];

/// Parts newer than those lists.
const DEVICES: &str = include_str!("../../profiles/devices.toml");

/// Names by vendor and device id.
pub struct Names<'a> {
    world: &'a World,
    names: OnceCell<Option<PciNames>>,
}

impl<'a> Names<'a> {
    /// Of this world's pci.ids, else the built-in ones.
    pub fn new(world: &'a World) -> Self {
        Self {
            world,
            names: OnceCell::new(),
        }
    }

    /// What a device is called; its ids where nobody knows.
    pub fn of(&self, vendor: u16, device: u16) -> String {
        let names = self.names.get_or_init(|| {
            let system = FILES
                .iter()
                .find_map(|file| self.world.files.read(Path::new(file)).ok());
            // The overlay is ours and tested: without it there are names still.
            PciNames::new(system.as_deref(), DEVICES).ok()
        });
        names
            .as_ref()
            .and_then(|names| names.device_name(vendor, device))
            .map_or_else(|| format!("[{vendor:04x}:{device:04x}]"), |name| name.to_string())
    }
}
