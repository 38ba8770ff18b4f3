//! Names of PCI vendors, devices and classes, from these lists in this order: the system's `pci.ids`, a copy of
//! November 2022 in `pci.ids.zlib`, `profiles/devices.toml` for newer devices, and the GPUs of the open kernel modules.
//!
//! The copy is made by `cargo xtask generate` from the crate `pci-ids`, whose own tables would add 3 MB to the program and
//! 60,000 relocations to its start.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use miniz_oxide::inflate::decompress_to_vec_zlib;
use serde::Deserialize;

use super::ids::Ids;

/// The lines of a `pci.ids` for these devices, by vendor, which a snapshot keeps.
pub fn only_these(system: &[u8], parts: &BTreeMap<u16, BTreeSet<u16>>) -> Vec<u8> {
    Ids::new(system).only(parts)
}

pub struct PciNames {
    system: Option<Ids>,
    parts: BTreeMap<(u16, u16), Part>,
}

/// A device relevant to GPUDirect, from `profiles/devices.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub vendor: u16,
    pub device: u16,
    /// Name, as in the PCI ID Repository.
    pub name: String,
    pub kind: PartKind,
    /// Architecture or generation in lower case: `hopper`, `connectx-7`, `gen5`.
    pub generation: String,
}

/// The device's role for GPUDirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    Gpu,
    /// A network adapter, also within a DPU.
    Nic,
    NicVirtualFunction,
    /// The Data Direct function of a network adapter: a second path to memory beside its main function.
    DataDirect,
    /// A PCI Express switch, or the bridge within a DPU.
    Switch,
    /// An NVLink switch; carries no PCI Express traffic between GPUs.
    Nvswitch,
}

#[derive(Debug, thiserror::Error)]
pub enum NamesError {
    #[error("the list of parts is malformed; correct profiles/devices.toml")]
    Parse(#[source] toml::de::Error),
    #[error(
        "the list of parts names {vendor:04x}:{device:04x} twice; keep one line of profiles/devices.toml"
    )]
    Twice { vendor: u16, device: u16 },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Overlay {
    devices: Vec<Part>,
    /// Minimum firmware versions: used by `profile`.
    #[serde(default, rename = "firmware")]
    _firmware: serde::de::IgnoredAny,
}

impl PciNames {
    /// `system`: the system's `pci.ids`, if any; `overlay`: the text of `profiles/devices.toml`.
    pub fn new(system: Option<&[u8]>, overlay: &str) -> Result<Self, NamesError> {
        let overlay: Overlay = toml::from_str(overlay).map_err(NamesError::Parse)?;
        let mut parts = BTreeMap::new();
        for part in overlay.devices {
            let (vendor, device) = (part.vendor, part.device);
            if parts.insert((vendor, device), part).is_some() {
                return Err(NamesError::Twice { vendor, device });
            }
        }
        Ok(Self { system: system.map(Ids::new), parts })
    }

    /// A device's name without the vendor's.
    pub fn device_name(&self, vendor: u16, device: u16) -> Option<Cow<'_, str>> {
        let part = || self.part(vendor, device).map(|part| part.name.as_str().into());
        self.lists().find_map(|ids| ids.device(vendor, device)).or_else(part).or_else(|| {
            let ids = crate::model::Ids { vendor, device: Some(device), class: 0 };
            ids.listed_gpu().map(Cow::from)
        })
    }

    /// The entry of `profiles/devices.toml`.
    pub fn part(&self, vendor: u16, device: u16) -> Option<&Part> {
        self.parts.get(&(vendor, device))
    }

    /// Calls with the vendors of all lists; some repeat.
    pub(super) fn each_vendor(&self, mut each: impl FnMut(u16, &str)) {
        self.lists().for_each(|ids| ids.vendors(|id, name| each(id, &name)));
    }

    /// Calls with a vendor's devices in all lists; some repeat.
    pub(super) fn each_device(&self, vendor: u16, mut each: impl FnMut(u16, &str)) {
        self.lists().for_each(|ids| ids.devices(vendor, |id, name| each(id, &name)));
        let parts = self.parts.values().filter(|part| part.vendor == vendor);
        parts.for_each(|part| each(part.device, &part.name));
    }

    /// Calls with the subclasses of all lists; some repeat.
    pub(super) fn each_subclass(&self, mut each: impl FnMut(u8, u8, &str)) {
        self.lists().for_each(|ids| ids.subclasses(|base, sub, name| each(base, sub, &name)));
    }

    /// The lists in the format of `pci.ids`. The built-in one is unpacked only if the first does not have the name.
    fn lists(&self) -> impl Iterator<Item = &Ids> {
        let builtin = std::iter::once_with(|| LazyLock::force(&BUILTIN));
        self.system.iter().chain(builtin)
    }
}

static BUILTIN: LazyLock<Ids> = LazyLock::new(|| {
    let packed = include_bytes!("pci.ids.zlib");
    // A test unpacks the list.
    Ids::new(&decompress_to_vec_zlib(packed).unwrap_or_default())
});

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &str = include_str!("../../profiles/devices.toml");

    #[test]
    fn newest_gpus_have_the_names_of_the_driver() {
        let names = PciNames::new(None, PARTS).expect("the list is well formed");
        for (device, name) in [
            (0x2b85, "GeForce RTX 5090"),
            (0x2e12, "GB10"),
            (0x3182, "B300 SXM6 AC"),
            (0x31c2, "GB300"),
        ] {
            assert_eq!(names.device_name(0x10de, device).as_deref(), Some(name));
        }
        assert_eq!(names.device_name(0x10de, 0x3041), None);
    }

    #[test]
    fn first_list_with_an_entry_wins() {
        let system =
            b"10de  Renamed\n\t2330  H100 of the system\nC 03  Display\n\t02  Three dimensions\n";
        let names = PciNames::new(Some(system), PARTS).expect("the list is well formed");
        assert_eq!(names.device_name(0x10de, 0x2330).as_deref(), Some("H100 of the system"));
        // Only in the built-in list of 2022.
        assert_eq!(
            names.device_name(0x15b3, 0x101e).as_deref(),
            Some("ConnectX Family mlx5Gen Virtual Function")
        );
        // Newer than the built-in list.
        assert_eq!(names.device_name(0x10de, 0x2335).as_deref(), Some("GH100 [H200 SXM 141GB]"));
        assert_eq!(names.device_name(0x10de, 0xfffe), None);
    }

    #[test]
    fn reduces_list_idempotently() {
        let system = b"# a list\n10de  NVIDIA\n\t2330  H100\n\t\t10de 16c1  board\n\t2335  H200\n15b3  Mellanox\n\t1021  CX-7\nC 03  Display\n";
        let parts = [(0x10de, [0x2335].into()), (0x1af4, [1].into())].into();
        let kept = only_these(system, &parts);
        assert_eq!(String::from_utf8_lossy(&kept), "10de  NVIDIA\n\t2335  H200\n");
        assert_eq!(only_these(&kept, &parts), kept);
    }

    #[test]
    fn works_without_system_list() {
        let names = PciNames::new(None, PARTS).expect("the list is well formed");
        let (mut vendors, mut classes) = (Vec::new(), Vec::new());
        names.each_vendor(|id, name| vendors.push(format!("{id:04x} {name}")));
        names.each_subclass(|base, sub, name| classes.push(format!("{base:02x}{sub:02x} {name}")));
        assert!(vendors.contains(&"10de NVIDIA Corporation".to_owned()));
        assert!(classes.contains(&"0302 3D controller".to_owned()));
        let part = names.part(0x10de, 0x2901).expect("B200 is listed");
        assert_eq!((part.kind, part.generation.as_str()), (PartKind::Gpu, "blackwell"));
    }

    /// The ids come from the kernel's drivers, the names from pci.ids.
    #[test]
    fn virtual_functions_are_named_so() {
        let names = PciNames::new(None, PARTS).expect("the list is well formed");
        for (vendor, without_rdma) in [
            // Ethernet alone, and two network processors.
            (0x15b3, Some(vec![0x0263, 0x7103, 0x7123])),
            (0x14e4, None),
            (0x8086, None),
        ] {
            let (mut known, mut missing) = (0, Vec::new());
            names.each_device(vendor, |device, name| {
                let ids = crate::model::Ids { vendor, device: Some(device), class: 0x02_0000 };
                let is_named = name.contains("Virtual Function") || name.ends_with(" VF");
                match (ids.is_virtual_function(), is_named) {
                    (true, is_named) => {
                        assert!(is_named, "{ids}: {name}");
                        known += 1;
                    }
                    (false, true) => missing.push(device),
                    (false, false) => {}
                }
            });
            assert!(known > 0, "{vendor:04x}");
            assert!(without_rdma.is_none_or(|devices| devices == missing), "{missing:04x?}");
        }
    }

    #[test]
    fn rejects_malformed_list() {
        let part = "{ vendor = 1, device = 2, name = \"x\", kind = \"gpu\", generation = \"y\" }";
        for (devices, expected) in [
            (format!("{part}, {part}"), "twice"),
            (part.replace("kind", "sort"), "malformed"),
            (part.replace("gpu", "toaster"), "malformed"),
            (part.replace("= 1", "= 65536"), "malformed"),
        ] {
            let error = PciNames::new(None, &format!("devices = [{devices}]")).err();
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains(expected), "{devices}: {text}");
        }
    }
}
