//! Names of PCI vendors, devices and classes back to their numbers: for texts that name parts and do not number them.
//! A name that stands for several numbers stands for none.

use std::cell::RefCell;
use std::collections::HashMap;

use super::names::PciNames;

/// Vendors as older lists name them, in lower case.
const FORMERLY: [(&str, u16); 7] = [
    ("advanced micro devices [amd]", 0x1022),
    ("advanced micro devices [amd] nee ati", 0x1002),
    ("amazon.com, inc.", 0x1d0f),
    ("broadcom corporation", 0x14e4),
    ("broadcom limited", 0x14e4),
    ("lsi logic / symbios logic", 0x1000),
    ("lsi logic / avago", 0x1000),
];

/// Looks numbers up. Upper and lower case are one: lists differ in them over the years.
pub struct PciNumbers<'a> {
    names: &'a PciNames,
    vendors: HashMap<String, Vec<u16>>,
    /// Bytes of the longest name of a vendor.
    longest: usize,
    classes: HashMap<String, Option<u32>>,
    /// Of each vendor that was asked for. None of a name that several devices have.
    devices: RefCell<HashMap<u16, HashMap<String, Option<u16>>>>,
}

impl<'a> PciNumbers<'a> {
    /// Indexes vendors and classes.
    pub fn new(names: &'a PciNames) -> Self {
        let mut vendors: HashMap<String, Vec<u16>> = HashMap::new();
        let mut add = |vendor: u16, name: &str| {
            let numbers = vendors.entry(name.to_lowercase()).or_default();
            if !numbers.contains(&vendor) {
                numbers.push(vendor);
            }
        };
        names.each_vendor(&mut add);
        FORMERLY
            .iter()
            .for_each(|(name, vendor)| add(*vendor, name));
        let mut classes = HashMap::new();
        names.each_subclass(|base, sub, name| {
            let class = u32::from(base) << 16 | u32::from(sub) << 8;
            one_or_none(&mut classes, name.to_lowercase(), class);
        });
        Self {
            names,
            longest: vendors.keys().map(String::len).max().unwrap_or_default(),
            vendors,
            classes,
            devices: RefCell::default(),
        }
    }

    /// The class code, programming interface 0, of a class's name as lspci begins its lines with.
    pub fn class(&self, name: &str) -> Option<u32> {
        self.classes.get(&name.to_lowercase()).copied().flatten()
    }

    /// Vendor and device of a text that has the vendor's name and behind it the device's; the device is none where no
    /// list has it, or it stands for several. The longest name of a vendor counts, for some begin others.
    pub fn part(&self, text: &str) -> Option<(u16, Option<u16>)> {
        let text = text.to_lowercase();
        let ends = text
            .match_indices(' ')
            .map(|(at, _)| at)
            .chain([text.len()]);
        let ends: Vec<usize> = ends.filter(|end| *end <= self.longest).collect();
        let (end, vendors) = ends
            .iter()
            .rev()
            .find_map(|end| Some((*end, self.vendors.get(&text[..*end])?)))?;
        let name = text[end..].trim();
        let found: Vec<(u16, u16)> = vendors
            .iter()
            .filter_map(|vendor| Some((*vendor, self.device(*vendor, name)?)))
            .collect();
        match (vendors.as_slice(), found.as_slice()) {
            (_, [(vendor, device)]) => Some((*vendor, Some(*device))),
            ([vendor], _) => Some((*vendor, None)),
            _ => None,
        }
    }

    /// A vendor's device by its name in lower case, or by its number where the text has that for want of a name.
    fn device(&self, vendor: u16, name: &str) -> Option<u16> {
        let number = name
            .strip_prefix("unknown ")
            .unwrap_or(name)
            .strip_prefix("device ");
        if let Some(number) = number.filter(|number| number.len() == 4)
            && let Ok(device) = u16::from_str_radix(number, 16)
        {
            return Some(device);
        }
        let mut devices = self.devices.borrow_mut();
        let of_vendor = devices.entry(vendor).or_insert_with(|| {
            let mut of_vendor = HashMap::new();
            self.names.each_device(vendor, |device, name| {
                one_or_none(&mut of_vendor, name.to_lowercase(), device);
            });
            of_vendor
        });
        of_vendor.get(name).copied().flatten()
    }
}

fn one_or_none<T: PartialEq + Copy>(map: &mut HashMap<String, Option<T>>, name: String, number: T) {
    map.entry(name)
        .and_modify(|known| {
            if *known != Some(number) {
                *known = None;
            }
        })
        .or_insert(Some(number));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &str = include_str!("../../profiles/devices.toml");
    const SYSTEM: &[u8] = b"1000  Acme\n\t0001  Thing\n\
        1001  Acme / LSI\n\tc030  PEX890xx PCIe Gen 5 Switch\n\
        1af4  Red Hat, Inc.\n\t1041  Virtio 1.0 network device\n\
        1b36  Red Hat, Inc.\n\t000c  QEMU PCIe Root port\n\
        8086  Intel Corporation\n\t1111  Twice\n\t2222  Twice\n\
        C 06  Bridge\n\t04  PCI bridge\n\t\t00  Normal decode\n\
        C 7f  Odd\n\t00  Same\n\t01  Same\n";

    fn look(of: impl FnOnce(&PciNumbers<'_>)) {
        let names = PciNames::new(Some(SYSTEM), PARTS).expect("the list is well formed");
        of(&PciNumbers::new(&names));
    }

    #[test]
    fn the_longest_vendor_counts_and_the_rest_is_the_device() {
        look(|numbers| {
            for (text, want) in [
                (
                    "Acme / LSI PEX890xx PCIe Gen 5 Switch",
                    Some((0x1001, Some(0xc030))),
                ),
                ("Acme Thing", Some((0x1000, Some(1)))),
                ("Acme Unheard of", Some((0x1000, None))),
                // In the crate's list alone, in our own, in none.
                (
                    "Mellanox Technologies MT2892 Family [ConnectX-6 Dx]",
                    Some((0x15b3, Some(0x101d))),
                ),
                (
                    "NVIDIA Corporation GH100 [H200 SXM 141GB]",
                    Some((0x10de, Some(0x2335))),
                ),
                ("NVIDIA Corporation GX999", Some((0x10de, None))),
                (
                    "nVidia Corporation Device 2335",
                    Some((0x10de, Some(0x2335))),
                ),
                (
                    "nVidia Corporation Unknown device 0191",
                    Some((0x10de, Some(0x0191))),
                ),
                ("Intel Corporation", Some((0x8086, None))),
                ("Intel Corporation Twice", Some((0x8086, None))),
                // One name of two vendors: the device decides.
                (
                    "Red Hat, Inc. QEMU PCIe Root port",
                    Some((0x1b36, Some(0xc))),
                ),
                ("Red Hat, Inc. Something new", None),
                ("Nobody GmbH Thing", None),
                ("", None),
            ] {
                assert_eq!(numbers.part(text), want, "{text}");
            }
        });
    }

    #[test]
    fn classes_come_back_from_their_names() {
        look(|numbers| {
            for (name, want) in [
                ("PCI bridge", Some(0x060400)),
                ("3D controller", Some(0x030200)),
                ("InfiniBand controller", Some(0x020700)),
                ("Infiniband controller", Some(0x020700)),
                ("Non-Volatile memory controller", Some(0x010800)),
                ("Same", None),
                ("Toaster", None),
            ] {
                assert_eq!(numbers.class(name), want, "{name}");
            }
        });
    }
}
