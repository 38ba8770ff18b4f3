//! Maps names of PCI vendors, devices and classes back to ids, for texts without numbers. Ambiguous names have no id.

use std::cell::{LazyCell, RefCell};
use std::collections::{BTreeMap, HashMap};

use super::names::PciNames;

/// Vendor names of older lists, and as lines have them that are cut, in lower case.
const FORMERLY: [(&str, u16); 9] = [
    ("advanced micro devices [amd]", 0x1022),
    ("advanced micro devices [amd] nee ati", 0x1002),
    ("amazon.com, inc.", 0x1d0f),
    ("broadcom corporation", 0x14e4),
    ("broadcom limited", 0x14e4),
    ("lsi logic / symbios logic", 0x1000),
    ("lsi logic / avago", 0x1000),
    ("mellanox", 0x15b3),
    ("nvidia", 0x10de),
];

/// Looks ids up, ignoring case, which differs between lists. Text with numbers needs none of the tables.
pub struct PciNumbers<'a> {
    names: &'a PciNames,
    vendors: LazyCell<Vendors, Box<dyn FnOnce() -> Vendors + 'a>>,
    classes: LazyCell<Classes, Box<dyn FnOnce() -> Classes + 'a>>,
    /// Devices of the vendors queried so far; `None` for ambiguous names.
    devices: RefCell<HashMap<u16, Devices>>,
}

type Classes = HashMap<String, Option<u32>>;

/// In the order of the names, which may be cut.
type Devices = BTreeMap<String, Option<u16>>;

struct Vendors {
    numbers: HashMap<String, Vec<u16>>,
    /// Length of the longest name.
    longest: usize,
}

impl Vendors {
    fn of(names: &PciNames) -> Self {
        let mut vendors: HashMap<String, Vec<u16>> = HashMap::new();
        let mut add = |vendor: u16, name: &str| {
            let numbers = vendors.entry(name.to_lowercase()).or_default();
            if !numbers.contains(&vendor) {
                numbers.push(vendor);
            }
        };
        names.each_vendor(&mut add);
        FORMERLY.iter().for_each(|(name, vendor)| add(*vendor, name));
        let longest = vendors.keys().map(String::len).max().unwrap_or_default();
        Self { numbers: vendors, longest }
    }
}

fn classes(names: &PciNames) -> Classes {
    let mut classes = HashMap::new();
    names.each_subclass(|base, sub, name| {
        let class = u32::from(base) << 16 | u32::from(sub) << 8;
        one_or_none(&mut classes, name.to_lowercase(), class);
    });
    classes
}

impl<'a> PciNumbers<'a> {
    pub fn new(names: &'a PciNames) -> Self {
        Self {
            names,
            vendors: LazyCell::new(Box::new(|| Vendors::of(names))),
            classes: LazyCell::new(Box::new(|| classes(names))),
            devices: RefCell::default(),
        }
    }

    /// The class code with programming interface 0 for a class's name, as in lspci.
    pub fn class(&self, name: &str) -> Option<u32> {
        self.classes.get(&name.to_lowercase()).copied().flatten()
    }

    /// Vendor and device of a text with both names. The longest matching vendor name counts, because some are prefixes of
    /// others; the device is `None` if unlisted or ambiguous.
    pub fn part(&self, text: &str) -> Option<(u16, Option<u16>)> {
        let text = text.to_lowercase();
        let ends = text.match_indices(' ').map(|(at, _)| at).chain([text.len()]);
        let ends: Vec<usize> = ends.filter(|end| *end <= self.vendors.longest).collect();
        let (end, vendors) = ends
            .iter()
            .rev()
            .find_map(|end| Some((*end, self.vendors.numbers.get(&text[..*end])?)))?;
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

    /// A vendor's device by its lower-case name, or by the number in the text.
    fn device(&self, vendor: u16, name: &str) -> Option<u16> {
        let number = name.strip_prefix("unknown ").unwrap_or(name).strip_prefix("device ");
        if let Some(number) = number.filter(|number| number.len() == 4)
            && let Ok(device) = u16::from_str_radix(number, 16)
        {
            return Some(device);
        }
        let mut devices = self.devices.borrow_mut();
        let of_vendor = devices.entry(vendor).or_insert_with(|| {
            let mut of_vendor = Devices::new();
            self.names.each_device(vendor, |device, name| {
                let known = of_vendor.entry(name.to_lowercase()).or_insert(Some(device));
                *known = known.filter(|known| *known == device);
            });
            of_vendor
        });
        of_vendor.get(name).copied().or_else(|| of_cut(of_vendor, name)).flatten()
    }
}

/// The only device whose name begins like one that was cut within its brackets: `GK208 [GeForce GT 630 Rev.`.
fn of_cut(devices: &Devices, name: &str) -> Option<Option<u16>> {
    let (_, rest) = name.rsplit_once('[').filter(|(_, rest)| !rest.contains(']'))?;
    // A word at least.
    const SHORTEST: usize = 4;
    let mut all = devices.range(name.to_owned()..).take_while(|(own, _)| own.starts_with(name));
    let (_, device) = all.next().filter(|_| rest.len() >= SHORTEST)?;
    all.next().is_none().then_some(*device)
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

    fn with_numbers(test: impl FnOnce(&PciNumbers<'_>)) {
        let names = PciNames::new(Some(SYSTEM), PARTS).expect("the list is well formed");
        test(&PciNumbers::new(&names));
    }

    #[test]
    fn longest_vendor_name_wins() {
        with_numbers(|numbers| {
            for (text, expected) in [
                ("Acme / LSI PEX890xx PCIe Gen 5 Switch", Some((0x1001, Some(0xc030)))),
                ("Acme Thing", Some((0x1000, Some(1)))),
                ("Acme Unheard of", Some((0x1000, None))),
                // Only in the crate's list, only in devices.toml, in none.
                (
                    "Mellanox Technologies MT2892 Family [ConnectX-6 Dx]",
                    Some((0x15b3, Some(0x101d))),
                ),
                ("NVIDIA Corporation GH100 [H200 SXM 141GB]", Some((0x10de, Some(0x2335)))),
                ("NVIDIA Corporation GX999", Some((0x10de, None))),
                ("nVidia Corporation Device 2335", Some((0x10de, Some(0x2335)))),
                ("nVidia Corporation Unknown device 0191", Some((0x10de, Some(0x0191)))),
                ("Intel Corporation", Some((0x8086, None))),
                ("Intel Corporation Twice", Some((0x8086, None))),
                // A name of two vendors: the device decides.
                ("Red Hat, Inc. QEMU PCIe Root port", Some((0x1b36, Some(0xc)))),
                ("Red Hat, Inc. Something new", None),
                ("Nobody GmbH Thing", None),
                ("", None),
            ] {
                assert_eq!(numbers.part(text), expected, "{text}");
            }
        });
    }

    #[test]
    fn finds_class_codes() {
        with_numbers(|numbers| {
            for (name, expected) in [
                ("PCI bridge", Some(0x060400)),
                ("3D controller", Some(0x030200)),
                ("InfiniBand controller", Some(0x020700)),
                ("Infiniband controller", Some(0x020700)),
                ("Non-Volatile memory controller", Some(0x010800)),
                ("Same", None),
                ("Toaster", None),
            ] {
                assert_eq!(numbers.class(name), expected, "{name}");
            }
        });
    }
}
