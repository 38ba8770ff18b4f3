//! What the fields of an object say of a PCI device: its vendor, class, address, product. Does not count devices.

use super::charts::is_uuid;
use super::fields::Object;
use super::nccl::GPU;
use super::rdma_lists::is_device;
use super::summary;
use crate::model::{Bdf, Ids};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    Gpu,
    Nic,
    Other,
}

/// What the fields of an object say.
#[derive(Default)]
pub struct Device<'a> {
    vendor: Option<u16>,
    /// The vendor is a number, not a name.
    by_number: bool,
    /// Numbers are decimal.
    is_decimal: bool,
    pub device: Option<u16>,
    function: Option<Function>,
    pub bdf: Option<Bdf>,
    /// Domain, bus, slot and function, each in a field.
    place: [Option<u32>; 4],
    pub model: Option<&'a str>,
    /// The name of a product of NVIDIA.
    is_product: bool,
    is_adapter: bool,
    pub uuid: Option<&'a str>,
    pub rdma: Option<&'a str>,
    pub key: Option<&'a str>,
    pub host: Option<&'a str>,
    /// A state that only a device at work has.
    pub is_observed: bool,
    has_state_of_port: bool,
    has_count: bool,
    /// The count and the product of GPU Feature Discovery.
    pub labels: (usize, Option<&'a str>),
}

impl<'a> Device<'a> {
    pub fn of(object: &'a Object) -> Self {
        let mut device = Self::default();
        // Conditions of a rule: `vendor: {op: In, value: ["10de"]}`.
        let is_rule = |value: &str| value.starts_with('{') || value.contains("[\"");
        let numbers: Vec<(String, &str)> = object
            .fields
            .iter()
            .filter(|(_, value)| !is_rule(value))
            .map(|(key, value)| (key.replace('.', ""), value.trim()))
            .collect();
        for (key, value) in &object.fields {
            device.label(key, value.trim());
        }
        const NO_VALUE: [&str; 3] = ["null", "None", "N/A"];
        for (key, value) in numbers.iter().filter(|(_, value)| !NO_VALUE.contains(value)) {
            let key = key.strip_prefix("status").unwrap_or(key);
            device.vendor_and_class(key, value);
            device.field(key, value);
        }
        for (key, value) in &numbers {
            device.number(key, value);
        }
        if let (None, [Some(domain), Some(bus), Some(slot), Some(function)]) =
            (device.bdf, device.place)
        {
            device.bdf = format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}").parse().ok();
        }
        device
    }

    fn label(&mut self, key: &str, value: &'a str) {
        if key.ends_with("nvidia.com/gpu.count") {
            self.labels.0 = value.parse().unwrap_or(0);
        } else if key.ends_with("nvidia.com/gpu.product") {
            let model = value.split("-SHARED").next().unwrap_or(value);
            self.labels.1 = model.split("-MIG-").next();
        }
        const HOSTS: [&str; 6] = [
            "hostname",
            "host",
            "node",
            "nodename",
            "hypervisorhostname",
            "kubernetes.io/hostname",
        ];
        let is_host = |name: &&str| key == *name || key.ends_with(&format!(".{name}"));
        if HOSTS.iter().any(is_host)
            && value.starts_with(|c: char| c.is_ascii_alphabetic())
            && value != "localhost"
        {
            self.host = Some(value);
        }
    }

    fn vendor_and_class(&mut self, key: &str, value: &str) {
        const VENDORS: [&str; 9] = [
            "vendor",
            "vendorid",
            "vendorname",
            "pcivendor",
            "pcivendorid",
            "pcivendorname",
            "manufacturer",
            "gpuvendor",
            "devicevendor",
        ];
        const CLASSES: [&str; 10] = [
            "class",
            "classid",
            "classcode",
            "classname",
            "pciclass",
            "pciclassid",
            "pciclassname",
            "subclassname",
            "pcisubclassname",
            "pnpclass",
        ];
        const TYPES: [&str; 6] =
            ["type", "devicetype", "processortype", "kind", "category", "devtype"];
        self.is_decimal |= matches!(value, "4318" | "5555");
        if VENDORS.contains(&key)
            && let Some((vendor, by_number)) = vendor(value)
            && (self.vendor.is_none() || by_number)
        {
            (self.vendor, self.by_number) = (Some(vendor), by_number);
        }
        let is_class = CLASSES.contains(&key) || key.ends_with("pciclassname");
        // The number of a type is not that of a class.
        let is_type = TYPES.contains(&key) && value.starts_with(|c: char| c.is_ascii_alphabetic());
        if (is_class || is_type)
            && let Some(function) = class(value)
        {
            self.function =
                self.function.filter(|known| *known == Function::Other).or(Some(function));
        }
        if let Some((_, rest)) = value.to_ascii_uppercase().split_once("PCI\\VEN_")
            && let Some(vendor) = rest.get(..4).and_then(hex)
        {
            (self.vendor, self.by_number, self.is_observed) = (Some(vendor), true, true);
            self.device = rest.split_once("&DEV_").and_then(|(_, rest)| hex(rest.get(..4)?));
        }
    }

    fn field(&mut self, key: &str, value: &'a str) {
        const STATES: [&str; 22] = [
            "driver",
            "temp",
            "util",
            "gpuutil",
            "memoryused",
            "usedmemory",
            "memused",
            "memoryfree",
            "freememory",
            "memfree",
            "powerdraw",
            "powerusage",
            "serial",
            "fanspeed",
            "pstate",
            "perfstate",
            "performancestate",
            "health",
            "adapterram",
            "numanode",
            "iommu",
            "active",
        ];
        const OF_PORTS: [&str; 9] = [
            "state",
            "portstate",
            "physstate",
            "linklayer",
            "nodeguid",
            "portguid",
            "fwver",
            "firmwareversion",
            "lid",
        ];
        const KEYS: [&str; 6] =
            ["index", "gpuindex", "serial", "serialnumber", "pnpdeviceid", "instanceid"];
        const RDMA: [&str; 9] = [
            "rdma",
            "rdmadevice",
            "rdmadev",
            "ibdev",
            "ibdevice",
            "ibdevicename",
            "hca",
            "devicename",
            "name",
        ];
        self.is_observed |= STATES.iter().any(|state| key.starts_with(state));
        self.has_state_of_port |= OF_PORTS.contains(&key);
        self.has_count |= matches!(key, "count" | "quantity" | "price");
        if KEYS.contains(&key) {
            self.key = self.key.or(Some(value));
        }
        if value.strip_prefix("GPU-").is_some_and(is_uuid) {
            self.uuid = Some(value);
        }
        if RDMA.contains(&key) && is_device(value) {
            self.rdma = Some(value);
        }
        if let Some(bdf) = address(key, value) {
            self.bdf = self.bdf.or(Some(bdf));
        }
        self.model(key, value);
    }

    fn model(&mut self, key: &str, value: &'a str) {
        const MODELS: [&str; 27] = [
            "name",
            "model",
            "modelname",
            "product",
            "productname",
            "pciproductname",
            "device",
            "devicename",
            "pcidevicename",
            "description",
            "caption",
            "friendlyname",
            "gpuname",
            "gpumodel",
            "gpuproduct",
            "cardname",
            "card",
            "chiptype",
            "title",
            "interfacedescription",
            "displayname",
            "subsystem",
            "subsystemname",
            "deviceid",
            "partdescription",
            "deviceproduct",
            "nvidiainformationmodel",
        ];
        const OTHERS: [&str; 6] =
            ["audio", "switch", "usb", "bridge", "high definition", "dma controller"];
        if !MODELS.contains(&key) || value.len() > 96 {
            return;
        }
        let lower = value.to_ascii_lowercase();
        let is_adapter = ["connectx", "bluefield"].iter().any(|name| lower.contains(name))
            || lower.starts_with("mt2") && lower.contains("family");
        if OTHERS.iter().any(|other| lower.contains(other)) {
            self.function = Some(Function::Other);
        } else if is_adapter {
            self.is_adapter = true;
        } else if let Some(model) = summary::model(value) {
            (self.model, self.is_product) = (Some(model), true);
        } else if is_chip(value) {
            // lxc writes the number behind the name.
            let name = value.split(" (").next();
            (self.model, self.is_product) = (self.model.or(name), true);
        } else if self.model.is_none() && key.contains("model") {
            self.model = Some(value);
        }
    }

    /// Numbers whose form depends on that of the vendor.
    fn number(&mut self, key: &str, value: &str) {
        const DEVICES: [&str; 9] = [
            "device",
            "deviceid",
            "product",
            "productid",
            "pcidevice",
            "pcideviceid",
            "pciproductid",
            "devid",
            "devicecode",
        ];
        if DEVICES.contains(&key) && self.device.is_none() {
            let in_marks = value.rsplit_once('(').map(|(_, number)| number.trim_end_matches(')'));
            let word = in_marks.unwrap_or(value);
            let word = word.strip_prefix("0x").or(word.strip_prefix("0X")).unwrap_or(word);
            self.device = match word.parse::<u16>() {
                Ok(number) if self.is_decimal || word.len() == 5 => Some(number),
                _ => Some(word).filter(|word| word.len() == 4).and_then(hex),
            };
        }
        if let Some((vendor, device)) = value.split_once(':')
            && let (4, 4) = (vendor.len(), device.len())
            && let (Some(vendor), Some(device)) = (hex(vendor), hex(device))
            && !key.starts_with("sub")
            && self.vendor.is_none_or(|known| known == vendor)
        {
            (self.vendor, self.by_number, self.device) = (Some(vendor), true, Some(device));
        }
        let part = match key {
            "domain" => 0,
            "bus" => 1,
            "slot" => 2,
            "function" => 3,
            _ => return,
        };
        self.place[part] = match value.strip_prefix("0x") {
            Some(number) => u32::from_str_radix(number, 16).ok(),
            None => value.parse().ok(),
        };
    }

    pub fn is_mellanox(&self) -> bool {
        self.vendor == Some(Ids::MELLANOX) || self.is_adapter
    }

    /// A name of an RDMA device alone may be a setting.
    pub fn is_nic(&self) -> bool {
        let is_placed = self.bdf.is_some() && (self.is_mellanox() || self.rdma.is_some());
        let is_named = self.rdma.is_some() && self.has_state_of_port;
        (is_placed || is_named)
            && !matches!(self.function, Some(Function::Gpu | Function::Other))
            && (self.vendor != Some(Ids::NVIDIA) || self.is_adapter)
    }

    /// The vendor, the class and the product: more than what selects devices.
    pub fn is_described(&self, name: &str) -> bool {
        let has_product = self.device.is_some() || self.model.is_some();
        self.is_of_type(name) && self.vendor.is_some() && has_product
    }

    fn is_of_type(&self, name: &str) -> bool {
        const NAMES: [&str; 4] = ["gpu", "display", "graphics", "videocontroller"];
        self.function == Some(Function::Gpu)
            || self.by_number && NAMES.iter().any(|word| name.contains(word))
    }

    pub fn is_gpu(&self, name: &str) -> bool {
        let ids = Ids { device: self.device, ..GPU };
        let is_nvidias = match self.vendor {
            Some(vendor) => vendor == Ids::NVIDIA,
            None => self.is_product,
        };
        let is_other = self.bdf.is_some_and(|bdf| bdf.function > 0)
            || matches!(self.function, Some(Function::Nic | Function::Other))
            || self.is_adapter
            || self.has_count;
        let is_known = self.is_product || self.is_of_type(name) || ids.listed_gpu().is_some();
        is_nvidias && is_known && !is_other
    }
}

fn hex(text: &str) -> Option<u16> {
    u16::from_str_radix(text, 16).ok()
}

/// The vendor, and whether it is a number: `0x10de`, `4318`, `NVIDIA Corporation (10de)`.
fn vendor(value: &str) -> Option<(u16, bool)> {
    let lower = value.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let number =
        words.map(|word| word.strip_prefix("0x").unwrap_or(word)).find_map(|word| match word {
            "4318" => Some(Ids::NVIDIA),
            "5555" => Some(Ids::MELLANOX),
            _ if word.len() == 4 && word.bytes().any(|byte| byte.is_ascii_digit()) => hex(word),
            _ => None,
        });
    match number {
        Some(number) => Some((number, true)),
        None if lower.contains("mellanox") => Some((Ids::MELLANOX, false)),
        None if lower.starts_with("nvidia") => Some((Ids::NVIDIA, false)),
        None => None,
    }
}

/// What a class or a type is: `0x030200`, `0302`, `03`, `Display controller`, `GPU`.
fn class(value: &str) -> Option<Function> {
    let lower = value.to_ascii_lowercase();
    let bare = lower.trim_start_matches("0x").trim_matches(['[', ']']);
    let is_number = bare.len().is_multiple_of(2) && (2..=6).contains(&bare.len());
    let decimal =
        bare.parse::<u32>().ok().filter(|number| *number >= 1 << 16 && !bare.starts_with('0'));
    let number = decimal.map(|number| number >> 16);
    let number =
        number.or_else(|| u32::from_str_radix(bare.get(..2)?, 16).ok().filter(|_| is_number));
    let is_hex = bare.bytes().all(|byte| byte.is_ascii_hexdigit());
    match number.filter(|_| is_hex) {
        Some(3) => return Some(Function::Gpu),
        Some(2) => return Some(Function::Nic),
        Some(_) => return Some(Function::Other),
        None => {}
    }
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    if lower == "gpu" || has(&["vga", "3d controller", "display"]) {
        Some(Function::Gpu)
    } else if has(&["ethernet", "infiniband", "network"]) {
        Some(Function::Nic)
    } else {
        has(&["audio", "bridge", "usb", "multimedia", "serial bus", "memory", "processing"])
            .then_some(Function::Other)
    }
}

/// `GH100 [H100 SXM5 80GB]`: the name of a chip and of a product.
fn is_chip(value: &str) -> bool {
    const CHIPS: [&str; 11] =
        ["GF1", "GK1", "GK2", "GM1", "GM2", "GP1", "GV1", "TU1", "GA1", "AD1", "GH1"];
    let name = value.strip_prefix("NVIDIA Corporation ").unwrap_or(value);
    let is_new = name.starts_with("GB1") || name.starts_with("GB2");
    (is_new || CHIPS.iter().any(|chip| name.starts_with(chip))) && name.contains('[')
}

/// An address under a key for one.
fn address(key: &str, value: &str) -> Option<Bdf> {
    const KEYS: [&str; 24] = [
        "address",
        "pciaddress",
        "pciaddr",
        "pci",
        "busid",
        "pcibusid",
        "businfo",
        "slot",
        "bdf",
        "sbdf",
        "pciid",
        "id",
        "pcislot",
        "bus",
        "location",
        "locationinformation",
        "pcibus",
        "pcibdf",
        "deviceaddress",
        "handle",
        "name",
        "gpubusid",
        "device",
        "identifier",
    ];
    if key == "path" || key == "syspath" || key == "sysfspath" || key == "devpath" {
        return value.rsplit('/').next()?.parse().ok();
    }
    if !KEYS.contains(&key) {
        return None;
    }
    if let Some(place) = value.strip_prefix("pci_") {
        let parts: Vec<&str> = place.split('_').collect();
        let [domain, bus, device, function] = parts[..] else { return None };
        return format!("{domain}:{bus}:{device}.{function}").parse().ok();
    }
    if let Some(place) = value.strip_prefix("PCI").filter(|place| place.starts_with([' ', '-'])) {
        // Windows, in any language: `PCI bus 23, device 0, function 0`.
        let numbers: Vec<u32> = place
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        let [bus, device, function] = numbers[..] else { return None };
        return format!("0000:{bus:02x}:{device:02x}.{function:x}").parse().ok();
    }
    let bare = ["pci@", "PCI:", "pci:", "PCI "].iter().find_map(|start| value.strip_prefix(start));
    let bare = bare.unwrap_or(value);
    (bare.len() >= 7).then(|| bare.parse().ok()).flatten()
}
