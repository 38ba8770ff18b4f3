//! Names of PCI devices, read on first use.

use std::cell::OnceCell;
use std::path::Path;

use crate::model::Ids;
use crate::pci::PciNames;
use crate::world::Files;

/// Locations of pci.ids in distributions.
pub const FILES: [&str; 3] =
    ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids"];

/// Devices newer than those lists.
const DEVICES: &str = include_str!("../../profiles/devices.toml");

/// Names by vendor and device id.
pub struct Names<'a> {
    files: &'a dyn Files,
    names: OnceCell<Option<PciNames>>,
}

impl<'a> Names<'a> {
    /// Uses the first pci.ids in these files, else the built-in list.
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, names: OnceCell::new() }
    }

    /// Name of a device; its ids if unknown.
    pub fn of(&self, ids: &Ids) -> String {
        self.list()
            .and_then(|names| names.device_name(ids.vendor, ids.device?))
            .map_or_else(|| format!("[{ids}]"), |name| name.to_string())
    }

    pub fn list(&self) -> Option<&PciNames> {
        let read = || {
            let system = FILES.iter().find_map(|file| self.files.read(Path::new(file)).ok());
            // The overlay is tested; without it, names are still available.
            PciNames::new(system.as_deref(), DEVICES).ok()
        };
        self.names.get_or_init(read).as_ref()
    }
}
