//! The first line of a function: `0000:18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100] [10de:2330] (rev a1)`.

use crate::model::{Bdf, Ids};
use crate::pci::PciNumbers;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub bdf: Bdf,
    class: &'a str,
    part: &'a str,
}

/// Vendor, device and class of the function, as far as the line has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub class: Option<u32>,
    pub vendor: Option<u16>,
    pub device: Option<u16>,
}

impl Numbers {
    /// The ids, if vendor and class are known.
    pub fn ids(&self) -> Option<Ids> {
        Some(Ids { vendor: self.vendor?, device: self.device, class: self.class? })
    }
}

/// Splits a line that begins with an address and continues like lspci's.
pub(super) fn parse(text: &str) -> Option<Head<'_>> {
    // Most lines of a text end here.
    if !text.as_bytes().first().is_some_and(u8::is_ascii_hexdigit) {
        return None;
    }
    let (address, rest) = text.split_once(' ')?;
    let bdf = address_of(address)?;
    let (class, part) = rest.split_once(": ")?;
    let class = class.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || " -/,.()&[]_".contains(c);
    let fits = class.starts_with(|c: char| c.is_ascii_alphanumeric())
        && class.len() <= 80
        && class.chars().all(plain);
    let part = part.trim();
    (fits && !part.is_empty()).then_some(Head { bdf, class, part })
}

/// Parses `BB:DD.F` or `DDDD:BB:DD.F` in exactly lspci's form; other programs use looser ones.
fn address_of(text: &str) -> Option<Bdf> {
    let bus = match text.len() {
        7 => text,
        12..=16 => {
            let (domain, bus) = text.split_at_checked(text.len() - 8)?;
            let hex = domain.bytes().all(|byte| byte.is_ascii_hexdigit());
            bus.strip_prefix(':').filter(|_| hex)?
        }
        _ => return None,
    };
    let shape = bus.bytes().enumerate().all(|(at, byte)| match at {
        2 => byte == b':',
        5 => byte == b'.',
        _ => byte.is_ascii_hexdigit(),
    });
    shape.then(|| text.parse().ok()).flatten()
}

impl<'a> Head<'a> {
    /// The ids; names are looked up if the line has no numbers.
    pub fn numbers(&self, numbers: &PciNumbers<'_>) -> Numbers {
        let (part, interface) = self.bare_part();
        let (vendor, device) = part_of(part, numbers);
        Numbers {
            class: class_of(self.class, numbers).map(|class| class | u32::from(interface)),
            vendor,
            device,
        }
    }

    /// True if the name says that it is an RDMA device, whatever its number: several devices share such a name.
    pub fn names_rdma(&self) -> bool {
        const WORDS: [&str; 5] = ["Elastic Fabric Adapter", "Omni-Path", "RDMA", "RoCE", "iWARP"];
        WORDS.iter().any(|word| self.part.contains(word))
    }

    /// The device part without revision and programming interface, and the latter.
    fn bare_part(&self) -> (&'a str, u8) {
        let mut part = self.part;
        let mut interface = 0;
        if let Some((before, after)) = part.rsplit_once(" (prog-if ") {
            interface =
                after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(0);
            part = before;
        }
        if let Some((before, _)) = part.rsplit_once(" (rev ") {
            part = before;
        }
        // Where the line was cut.
        const CUT: [&str; 4] = [" (rev", " (re", " (r", " ("];
        part = CUT.iter().find_map(|end| part.strip_suffix(end)).unwrap_or(part);
        (part.trim_end(), interface)
    }
}

/// The name of a GPU, as a line has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// `10de:2330`.
    number: Option<&'a str>,
    /// `GH100 [H100 SXM5 80GB]`.
    name: &'a str,
}

/// NVIDIA's GPU of a line.
pub fn gpu(line: &str) -> Option<(Bdf, Named<'_>)> {
    let line = line.trim();
    let head = parse(line.strip_prefix("> ").unwrap_or(line))?;
    let is_gpu = ["VGA", "3D controller", "0300", "0302"].iter().any(|of| head.class.contains(of));
    let (part, _) = head.bare_part();
    let is_number = |text: &&str| {
        let (vendor, device) = text.split_once(':').unwrap_or_default();
        hex16(vendor).is_some() && hex16(device).is_some()
    };
    let number = bracketed(part).or(Some(part)).filter(is_number);
    let name = part.strip_prefix("NVIDIA Corporation ");
    let is_nvidia = name.is_some() || number.is_some_and(|number| number.starts_with("10de:"));
    let name = name.unwrap_or_default();
    let name = match number {
        Some(_) => name.rsplit_once(" [").map_or(name, |(name, _)| name),
        None => name,
    };
    (is_gpu && is_nvidia).then_some((head.bdf, Named { number, name }))
}

impl Named<'_> {
    /// True for another model. Names of one model may be cut, and lists may word them differently.
    pub fn contradicts(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.number, other.number) {
            return a != b;
        }
        let models = self.name.split_once(" [").zip(other.name.split_once(" ["));
        models.is_some_and(|((_, a), (_, b))| {
            let (a, b) = (a.trim_end_matches(']'), b.trim_end_matches(']'));
            !a.starts_with(b) && !b.starts_with(a)
        })
    }
}

fn class_of(text: &str, numbers: &PciNumbers<'_>) -> Option<u32> {
    let number =
        bracketed(text).or(text.strip_prefix("Class ")).unwrap_or(text).trim_start_matches('[');
    match hex16(number.trim_end_matches(']')) {
        Some(class) => Some(u32::from(class) << 8),
        None => numbers.class(text),
    }
}

fn part_of(text: &str, numbers: &PciNumbers<'_>) -> (Option<u16>, Option<u16>) {
    let bare = text.strip_prefix("Unknown device ").or(text.strip_prefix("Device "));
    let number = bracketed(text).or(bare).unwrap_or(text);
    if let Some((vendor, device)) = number.split_once(':')
        && let (Some(vendor), Some(device)) = (hex16(vendor), hex16(device))
    {
        return (Some(vendor), Some(device));
    }
    match numbers.part(text) {
        Some((vendor, device)) => (Some(vendor), device),
        None => (None, None),
    }
}

/// The text in brackets at the end.
fn bracketed(text: &str) -> Option<&str> {
    text.strip_suffix(']')?.rsplit_once('[').map(|(_, inner)| inner)
}

fn hex16(text: &str) -> Option<u16> {
    let digits = text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u16::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::PciNames;

    fn numbers(line: &str) -> Option<(Option<u32>, Option<u16>, Option<u16>)> {
        let names = PciNames::new(None, include_str!("../../../profiles/devices.toml"))
            .expect("the list of parts");
        let found = parse(line)?.numbers(&PciNumbers::new(&names));
        Some((found.class, found.vendor, found.device))
    }

    #[test]
    fn reads_all_notations() {
        const H100: Option<(Option<u32>, Option<u16>, Option<u16>)> =
            Some((Some(0x030200), Some(0x10de), Some(0x2330)));
        for (line, expected) in [
            ("18:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)", H100),
            ("0000:18:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)", H100),
            ("10000:18:00.0 0302: 10de:2330 (rev a1)", H100),
            (
                "18:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100] [10de:2330] (rev a1)",
                H100,
            ),
            ("18:00.0 Class 0302: Device 10de:2330 (rev a1)", H100),
            (
                "18:00.0 Class [0302]: Device [10de:2330] (rev ff) (prog-if ff)",
                Some((Some(0x0302ff), Some(0x10de), Some(0x2330))),
            ),
            (
                "02:00.0 Non-Volatile memory controller: Samsung Electronics Co Ltd Device a824 (prog-if 02 [NVM Express])",
                Some((Some(0x010802), Some(0x144d), Some(0xa824))),
            ),
            (
                "17:00.0 PCI bridge: Nobody Ltd. Thing (rev b0) (prog-if 00 [Normal decode])",
                Some((Some(0x060400), None, None)),
            ),
            ("17:00.0 Toaster: NVIDIA Corporation GX999", Some((None, Some(0x10de), None))),
            (
                "00:01.0 Unassigned class [ffff]: Red Hat, Inc. QEMU PCIe Root port (rev 01)",
                Some((Some(0xffff00), Some(0x1b36), Some(0x000c))),
            ),
        ] {
            assert_eq!(numbers(line), expected, "{line}");
        }
    }

    /// Where a window or a person cut the line, it is the only device whose name begins so.
    #[test]
    fn cut_names_are_those_of_one_device() {
        const GT_710: Option<(Option<u32>, Option<u16>, Option<u16>)> =
            Some((Some(0x030000), Some(0x10de), Some(0x128b)));
        let head = "01:00.0 VGA compatible controller: NVIDIA Corporation";
        for name in
            ["GK208B [GeForce GT 710] (re", "GK208B [GeForce GT 710", "GK208B [GeForce GT 71"]
        {
            assert_eq!(numbers(&format!("{head} {name}")), GT_710, "{name}");
        }
        // There are several, and the chip alone is not a model.
        for name in ["GA102 [GeForce RTX 30", "GA102 [", "GK208B"] {
            let device = numbers(&format!("{head} {name}")).and_then(|found| found.2);
            assert_eq!(device, None, "{name}");
        }
    }

    #[test]
    fn other_models_at_one_address_contradict() {
        let of = |text: &str| {
            let line = format!("01:00.0 VGA compatible controller: {text}");
            gpu(line.leak()).expect("a GPU").1
        };
        let name = of("NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)");
        let both = of("NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)");
        for same in [
            of("10de:2204 (rev a1)"),
            of("NVIDIA Corporation GA102 [GeForce RTX 30"),
            of("NVIDIA Corporation Device 2204"),
        ] {
            assert!(!same.contradicts(&name) && !both.contradicts(&same), "{same:?}");
        }
        assert!(name.contradicts(&of("NVIDIA Corporation GP102 [GeForce GTX 1080 Ti] (rev a1)")));
        assert!(both.contradicts(&of("10de:1b06")));
        assert_eq!(gpu("01:00.0 Ethernet controller: Intel Corporation X [8086:1572]"), None);
    }

    #[test]
    fn ignores_other_lines_with_addresses() {
        for line in [
            "00:01.0",
            "00:01.0 ",
            "0:01.0 VGA compatible controller: x",
            "00:20.0 VGA compatible controller: x",
            "00:01.8 VGA compatible controller: x",
            "0000:3b:00.0 mlx5_0 (MT4123 - MCX653106A) fw 20.28.1002 port 1 (ACTIVE) ==> ib0 (Up)",
            "0000:01:00.0 'Ethernet Controller X710 1572' if=eth0 drv=i40e unused=vfio-pci",
            "01:00.0 \"3D controller\" \"NVIDIA Corporation\" \"GH100\" -ra1",
            "0000:01:00.0: BAR 0: assigned",
            "-[0000:00]-+-00.0",
            "100000000:00:01.0 3D controller: x",
            "é0:01.0 3D controller: x",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
