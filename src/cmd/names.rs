//! Names of PCI devices, read when the first is asked for.

use std::cell::OnceCell;
use std::path::Path;

use crate::model::Ids;
use crate::pci::PciNames;
use crate::world::Files;

/// Where distributions keep pci.ids.
pub const FILES: [&str; 3] = [
    "/usr/share/misc/pci.ids",
    "/usr/share/hwdata/pci.ids",
    "/usr/share/pci.ids",
];

/// Parts newer than those lists.
const DEVICES: &str = include_str!("../../profiles/devices.toml");

/// Names by vendor and device id.
pub struct Names<'a> {
    files: &'a dyn Files,
    names: OnceCell<Option<PciNames>>,
}

impl<'a> Names<'a> {
    /// Of the pci.ids among these files, else the built-in ones.
    pub fn new(files: &'a dyn Files) -> Self {
        Self {
            files,
            names: OnceCell::new(),
        }
    }

    /// What a device is called; its ids where nobody knows.
    pub fn of(&self, ids: &Ids) -> String {
        self.list()
            .and_then(|names| names.device_name(ids.vendor, ids.device?))
            .map_or_else(|| format!("[{ids}]"), |name| name.to_string())
    }

    pub fn list(&self) -> Option<&PciNames> {
        let read = || {
            let system = FILES
                .iter()
                .find_map(|file| self.files.read(Path::new(file)).ok());
            // The overlay is ours and tested: without it there are names still.
            PciNames::new(system.as_deref(), DEVICES).ok()
        };
        self.names.get_or_init(read).as_ref()
    }
}
