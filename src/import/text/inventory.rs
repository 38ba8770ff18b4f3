//! Lists of PCI functions by other programs than lspci: lshw, inxi, hwinfo, and lspci for programs. Each function becomes a line as
//! lspci prints it, so one reader finds the numbers of its names.

use super::{Kind, Starts};
use crate::import::ImportError;
use crate::import::support::Recording;
use crate::model::{Bdf, ListedGpu};

pub const LSHW: Kind = Kind {
    name: "lshw",
    starts: Starts::Line,
    begins: |line| {
        NODES.iter().any(|node| line.strip_prefix("*-").is_some_and(|rest| rest.starts_with(node)))
            || element(line)
                .is_some_and(|pair| pair == ("class", "display") || pair == ("class", "network"))
    },
    yields: "GPUs and network controllers: address, model, driver; in any language, and as JSON",
    example: "  *-display
       description: 3D controller
       product: GH100 [H100 SXM5 80GB]
       vendor: NVIDIA Corporation
       physical id: 0
       bus info: pci@0000:17:00.0
       configuration: driver=nvidia latency=0
",
    read: lshw,
};

pub const INXI: Kind = Kind {
    name: "inxi",
    starts: Starts::Line,
    begins: |line| {
        const HEADS: [&str; 2] = ["Graphics:", "Network:"];
        let rest = HEADS.iter().find_map(|head| line.strip_prefix(head)).unwrap_or(line);
        HEADS.contains(&line) || device_of_inxi(rest.trim_start()).is_some()
    },
    yields: "models of NVIDIA's GPUs, version of their driver; with -x the addresses of all GPUs and network controllers",
    example: "Graphics:
  Device-1: NVIDIA GH100 [H100 SXM5 80GB] driver: nvidia v: 570.86.15 bus-ID: 17:00.0
    chip-ID: 10de:2330 class-ID: 0302
",
    read: inxi,
};

pub const HWINFO: Kind = Kind {
    name: "hwinfo",
    starts: Starts::Line,
    begins: |line| class_of_hwinfo(line).is_some(),
    yields: "GPUs and network controllers: address, numbers, driver",
    example: "20: PCI 1700.0: 0302 3D controller
  [Created at pci.386]
  Vendor: pci 0x10de \"nVidia Corporation\"
  Device: pci 0x2330 \"GH100 [H100 SXM5 80GB]\"
  Driver: \"nvidia\"
  SysFS BusID: 0000:17:00.0
",
    read: |text, recording| {
        hwinfo(text, recording);
        Ok(())
    },
};

pub const LSPCI_FOR_PROGRAMS: Kind = Kind {
    name: "lspci -mm, lspci -vmm",
    starts: Starts::Line,
    begins: |line| slot(line).is_some() || quoted(line).is_some(),
    yields: "PCI functions: address, class, model",
    example: "Slot:\t17:00.0
Class:\t3D controller
Vendor:\tNVIDIA Corporation
Device:\tGH100 [H100 SXM5 80GB]
Driver:\tnvidia
",
    read: |text, recording| {
        for_programs(text, recording);
        Ok(())
    },
};

/// Nodes of lshw by which its output is recognized.
const NODES: [&str; 6] = ["display", "network", "pci", "core", "generic", "memory"];

/// The fields of a function.
#[derive(Default)]
struct Function<'a> {
    bdf: Option<Bdf>,
    class: &'a str,
    vendor: &'a str,
    device: &'a str,
    driver: &'a str,
}

impl Function<'_> {
    /// Records it, if it is a PCI function, as lspci prints it.
    fn record(&self, recording: &mut Recording) {
        let Some(bdf) = self.bdf.filter(|_| !self.class.is_empty() && !self.vendor.is_empty())
        else {
            return;
        };
        let mut line = format!("{bdf} {}: {} {}\n", self.class, self.vendor, self.device);
        if !self.driver.is_empty() {
            line.push_str(&format!("\tKernel driver in use: {}\n", self.driver));
        }
        recording.inventory(bdf, line);
    }
}

/// The key and the text of a line `"product" : "GH100",` of JSON.
fn element(line: &str) -> Option<(&str, &str)> {
    let (key, text) = line.trim_end_matches(',').split_once(':')?;
    let bare = |text: &str| Some(text.trim().strip_prefix('"')?.strip_suffix('"')?.len());
    let (key, text) = (key.trim(), text.trim());
    bare(key).zip(bare(text))?;
    Some((key.trim_matches('"'), text.trim_matches('"')))
}

/// The class of a node of lshw, whose descriptions differ from lspci's classes.
fn class_of_lshw(node: &str, description: &str) -> &'static str {
    const DISPLAYS: [&str; 3] =
        ["VGA compatible controller", "3D controller", "Display controller"];
    if node == "display" {
        let known = DISPLAYS.into_iter().find(|class| *class == description);
        return known.unwrap_or("Display controller");
    }
    let description = description.to_ascii_lowercase();
    match description.as_str() {
        // An interface of IPoIB has no better description.
        "interface" => "Infiniband controller",
        _ if description.contains("infiniband") => "Infiniband controller",
        _ if description.contains("wireless") => "Network controller",
        _ => "Ethernet controller",
    }
}

/// lshw translates the names of fields, but not their order: description, product, vendor, physical id, bus info.
fn lshw(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut node = "";
    let mut fields: Vec<&str> = Vec::new();
    let mut found = Function::default();
    let mut listed = Vec::new();
    for line in text.lines().map(str::trim).chain(["*-end"]) {
        let of_json = element(line);
        let begun = line.strip_prefix("*-").and_then(|rest| rest.split([':', ' ']).next());
        if let Some(name) =
            begun.or(of_json.filter(|(key, _)| *key == "class").map(|(_, name)| name))
        {
            found.record(recording);
            if let ("display", [_, product, ..]) = (node, fields.as_slice()) {
                listed.extend(unplaced(product).filter(|_| found.bdf.is_none()));
            }
            (node, found) = (name, Function::default());
            fields.clear();
            continue;
        }
        if !matches!(node, "display" | "network") {
            continue;
        }
        match of_json {
            Some(("description", value)) => found.class = class_of_lshw(node, value),
            Some(("product", value)) => found.device = value,
            Some(("vendor", value)) => found.vendor = value,
            Some(("driver", value)) => found.driver = value,
            Some(("businfo", value)) => found.bdf = address(value),
            Some(_) => {}
            None => {
                let Some((_, value)) = line.split_once(": ") else { continue };
                let driver =
                    value.split_ascii_whitespace().find_map(|word| word.strip_prefix("driver="));
                found.driver = driver.unwrap_or(found.driver);
                if let Some(bdf) = address(value) {
                    if let [description, product, vendor, _] = fields.as_slice() {
                        found.class = class_of_lshw(node, description);
                        (found.device, found.vendor) = (product, vendor);
                    }
                    found.bdf = Some(bdf);
                } else if found.bdf.is_none() {
                    fields.push(value);
                }
            }
        }
    }
    recording.listed(listed);
    Ok(())
}

/// The GPU of a cut node, which lacks the address: `GP107M [GeForce GTX 1050 Ti Mobile]`.
fn unplaced(product: &str) -> Option<ListedGpu> {
    let name = product.split_once('[')?.1.trim_end_matches(']');
    let is_nvidias = ["GeForce ", "Tesla ", "Quadro ", "RTX ", "TITAN "]
        .iter()
        .any(|brand| name.starts_with(brand));
    is_nvidias.then(|| ListedGpu { model: Some(name.to_owned()), ..ListedGpu::default() })
}

/// `pci@0000:17:00.0`.
fn address(text: &str) -> Option<Bdf> {
    text.strip_prefix("pci@")?.parse().ok()
}

/// The words behind `Device-1:`, in old versions `Card:` and `Card-1:`.
fn device_of_inxi(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("Device-").or_else(|| line.strip_prefix("Card-"));
    if let Some(rest) = rest {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        return Some(rest.strip_prefix(':').unwrap_or(rest).trim());
    }
    line.strip_prefix("Card: ").map(str::trim)
}

/// The parts of a line that each begin with a device: on a wide terminal inxi does not wrap.
fn devices_of_inxi(line: &str) -> impl Iterator<Item = &str> {
    let marks = line.match_indices(" Device-").chain(line.match_indices(" Card-"));
    let is_device = |at: &usize| {
        let rest =
            line[*at + 1..].trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '-');
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        behind.len() < rest.len() && behind.starts_with(':')
    };
    let starts: Vec<usize> = marks.map(|(at, _)| at).filter(is_device).collect();
    let ends: Vec<usize> = starts.iter().copied().chain([line.len()]).collect();
    [0].into_iter().chain(starts).zip(ends).map(|(from, to)| line[from..to].trim())
}

/// Vendors as inxi shortens their names, and as the PCI ids list them.
const VENDORS: [(&str, &str); 6] = [
    ("NVIDIA Corporation ", "NVIDIA Corporation"),
    ("NVIDIA ", "NVIDIA Corporation"),
    ("Mellanox ", "Mellanox Technologies"),
    ("Advanced Micro Devices [AMD/ATI] ", "Advanced Micro Devices, Inc. [AMD/ATI]"),
    ("AMD ", "Advanced Micro Devices, Inc. [AMD/ATI]"),
    ("Intel ", "Intel Corporation"),
];

/// inxi wraps the fields of a device; a heading or the next device ends them.
fn inxi(text: &str, recording: &mut Recording) -> Result<(), ImportError> {
    let mut heading = "Graphics";
    let mut devices: Vec<(&str, String)> = Vec::new();
    let mut is_open = false;
    for mut line in text.lines().flat_map(devices_of_inxi) {
        if let Some((word, rest)) = line.split_once(':')
            && HEADINGS.contains(&word)
        {
            (heading, line, is_open) = (word, rest.trim(), false);
        }
        if let Some(rest) = device_of_inxi(line) {
            devices.push((heading, rest.to_owned()));
            is_open = true;
        } else if ["Display", "IF", "OpenGL", "GLX", "API", "Monitor"]
            .iter()
            .any(|end| line.starts_with(end))
        {
            is_open = false;
        } else if is_open && let Some((_, fields)) = devices.last_mut() {
            *fields = format!("{fields} {line}");
        }
    }
    let mut listed = Vec::new();
    for (heading, fields) in
        devices.iter().filter(|(heading, _)| matches!(*heading, "Graphics" | "Network"))
    {
        let is_gpu = *heading == "Graphics";
        let name = fields.split([':']).next().unwrap_or_default();
        // The name of the first field stands behind the model.
        let name = name.rsplit_once(' ').map_or(name, |(name, _)| name);
        let name = name.strip_suffix(" bus").or(name.strip_suffix(" chip")).unwrap_or(name);
        let driver = field(fields, &["driver:"]).unwrap_or_default();
        if driver == "nvidia"
            && let Some(version) = field(fields, &["v:"])
                .filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        {
            recording.pasted_file("/sys/module/nvidia/version", format!("{version}\n"))?;
        }
        let vendor =
            VENDORS.iter().find_map(|(short, long)| Some((*long, name.strip_prefix(short)?)));
        let chip = field(fields, &["chip-ID:", "chip ID:"]).filter(|chip| chip.len() == 9);
        let bdf = field(fields, &["bus-ID:", "bus ID:"]).and_then(|bus| bus.parse().ok());
        let class = field(fields, &["class-ID:"]).filter(|class| class.len() == 4);
        let is_wireless =
            ["Wireless", "Wi-Fi", "WiFi", "802.11"].iter().any(|word| name.contains(word));
        let guessed = if is_gpu {
            "VGA compatible controller"
        } else if is_wireless {
            "Network controller"
        } else {
            "Ethernet controller"
        };
        let (vendor, device) = match chip {
            Some(chip) => (chip, ""),
            None => vendor.unwrap_or((name, "")),
        };
        let function = Function { bdf, class: class.unwrap_or(guessed), vendor, device, driver };
        match bdf {
            Some(_) => function.record(recording),
            None if is_gpu && vendor.starts_with("NVIDIA") => {
                listed.push(ListedGpu { model: Some(device.to_owned()), ..ListedGpu::default() });
            }
            None => {}
        }
    }
    recording.listed(listed);
    Ok(())
}

/// Headings of inxi's sections.
const HEADINGS: [&str; 20] = [
    "System",
    "Machine",
    "Battery",
    "Memory",
    "CPU",
    "Graphics",
    "Audio",
    "Network",
    "Bluetooth",
    "Logical",
    "RAID",
    "Drives",
    "Partition",
    "Swap",
    "USB",
    "Sensors",
    "Repos",
    "Processes",
    "Info",
    "Weather",
];

/// The word behind the name of a field.
fn field<'a>(fields: &'a str, names: &[&str]) -> Option<&'a str> {
    let rest = names.iter().find_map(|name| {
        let at =
            fields.match_indices(name).find(|(at, _)| *at == 0 || fields[..*at].ends_with(' '))?.0;
        Some(&fields[at + name.len()..])
    })?;
    rest.split_ascii_whitespace().next()
}

/// The number of the class in `20: PCI 1700.0: 0302 3D controller`.
fn class_of_hwinfo(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once(": PCI ")?;
    number.parse::<u32>().ok()?;
    let (_, rest) = rest.split_once(": ")?;
    let class = rest.get(..4)?;
    class.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(class)
}

fn hwinfo(text: &str, recording: &mut Recording) {
    let mut found = Function::default();
    let mut numbers = (None, None);
    let number = |value: &str| Some(value.trim().strip_prefix("pci 0x")?.get(..4)?.to_owned());
    for line in text.lines().map(str::trim).chain(["0: PCI 0: ffff"]) {
        if let Some(class) = class_of_hwinfo(line) {
            if let (Some(vendor), Some(device)) = &numbers {
                let part = format!("{vendor}:{device}");
                Function { vendor: &part, ..std::mem::take(&mut found) }.record(recording);
            }
            numbers = (None, None);
            let is_kept = class.starts_with("03") || class.starts_with("02");
            found = Function { class: if is_kept { class } else { "" }, ..Function::default() };
            continue;
        }
        match line.split_once(':') {
            Some(("Vendor", value)) => numbers.0 = number(value).or(numbers.0),
            Some(("Device", value)) => numbers.1 = number(value).or(numbers.1),
            Some(("Driver", value)) => found.driver = value.trim().trim_matches('"'),
            Some(("SysFS BusID", value)) => found.bdf = value.trim().parse().ok(),
            _ => {}
        }
    }
}

/// The address in `Slot: 17:00.0`.
fn slot(line: &str) -> Option<Bdf> {
    line.strip_prefix("Slot:")?.trim().parse().ok()
}

/// The address, class, vendor and device in `17:00.0 "3D controller" "NVIDIA Corporation" "GH100" -ra1 "" ""`.
fn quoted(line: &str) -> Option<(Bdf, [&str; 3])> {
    let (bdf, rest) = line.split_once(" \"")?;
    let bdf = bdf.parse().ok()?;
    let mut texts = rest.split('"').step_by(2);
    Some((bdf, [texts.next()?, texts.next()?, texts.next()?]))
}

fn for_programs(text: &str, recording: &mut Recording) {
    let mut found = Function::default();
    for line in text.lines().map(str::trim).chain(["Slot:\t"]) {
        if let Some((bdf, [class, vendor, device])) = quoted(line) {
            Function { bdf: Some(bdf), class, vendor, device, driver: "" }.record(recording);
            continue;
        }
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match key {
            "Slot" => {
                found.record(recording);
                found = Function { bdf: value.parse().ok(), ..Function::default() };
            }
            "Class" => found.class = value,
            "Vendor" => found.vendor = value,
            "Device" => found.device = value,
            "Driver" => found.driver = value,
            _ => {}
        }
    }
}
