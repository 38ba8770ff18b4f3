//! Writes a machine as a root directory: the PCI devices, their links, IOMMU groups, NUMA nodes, files.

use std::path::Path;

use super::bars::resource;
use super::config::{Around, config};
use super::device::Device;
use super::files::Root;
use super::machine::Machine;
use super::sysfs;

/// Lays the machine out below `dir`.
pub fn lay_out(machine: &Machine, dir: &Path) {
    let layout = Layout { machine, root: Root::new(dir) };
    layout.root.dir("sys/bus/pci/devices");
    for device in &machine.devices {
        layout.device(device);
    }
    layout.nodes();
    sysfs::lay_out(machine, &layout.root);
    layout.extra();
}

struct Layout<'a> {
    machine: &'a Machine,
    root: Root<'a>,
}

impl Layout<'_> {
    fn device(&self, device: &Device) {
        let here = self.machine.place(device);
        let at = |name: &str| format!("{here}/{name}");
        self.root.put(&at("config"), config(device, self.around(device)));
        self.attributes(device, &here);
        self.root.link(&format!("sys/bus/pci/devices/{}", device.bdf), here.as_str());
        self.root.link(&at("subsystem"), "sys/bus/pci");
        if let Some(driver) = &device.driver {
            let driver = format!("sys/bus/pci/drivers/{driver}");
            self.root.dir(&driver);
            self.root.link(&at("driver"), &driver);
            self.root.link(&format!("{driver}/{}", device.bdf), here.as_str());
        }
        if let Some(group) = device.iommu_group {
            let group = format!("sys/kernel/iommu_groups/{group}");
            let kind = device.iommu.as_deref().unwrap_or("identity");
            self.root.line(&format!("{group}/type"), kind);
            self.root.link(&format!("{group}/devices/{}", device.bdf), here.as_str());
            self.root.link(&at("iommu_group"), &group);
        }
        self.virtual_functions(device, &here);
        for (name, content) in &device.files {
            self.root.put(&at(name), content.bytes());
        }
        for name in &device.without {
            self.root.remove(&at(name));
        }
    }

    fn attributes(&self, device: &Device, here: &str) {
        let line = |name: &str, text: String| self.root.line(&format!("{here}/{name}"), text);
        let (subvendor, subdevice) =
            device.subsystem.map_or((0, 0), |(vendor, id)| (vendor.0, id.0));
        line("vendor", format!("0x{:04x}", device.vendor.0));
        line("device", format!("0x{:04x}", device.device.0));
        line("class", format!("0x{:06x}", device.class.0));
        line("revision", format!("0x{:02x}", device.revision.0));
        line("subsystem_vendor", format!("0x{subvendor:04x}"));
        line("subsystem_device", format!("0x{subdevice:04x}"));
        line("irq", "0".to_owned());
        line("enable", "1".to_owned());
        line("uevent", uevent(device));
        line("modalias", modalias(device));
        self.root.put(&format!("{here}/resource"), resource(device));
        if let Some(node) = device.numa {
            line("numa_node", node.to_string());
        }
        if let Some(cpus) = self.machine.local_cpus(device) {
            line("local_cpulist", cpus);
        }
        for (which, link) in [("current", &device.link), ("max", &device.max_link)] {
            if let Some((speed, width)) = link {
                line(&format!("{which}_link_speed"), speed_text(speed));
                line(&format!("{which}_link_width"), width.to_string());
            }
        }
        if !device.vpd.is_empty() {
            let path = format!("{here}/vpd");
            self.root.put(&path, sysfs::vpd(&device.vpd));
        }
    }

    fn virtual_functions(&self, device: &Device, here: &str) {
        if let Some(sriov) = &device.sriov {
            self.root.line(&format!("{here}/sriov_totalvfs"), sriov.total);
            self.root.line(&format!("{here}/sriov_numvfs"), sriov.vfs);
        }
        let own = self.machine.devices.iter().filter(|d| d.vf_of.as_ref() == Some(&device.bdf));
        for (nth, function) in own.enumerate() {
            let place = self.machine.place(function);
            self.root.link(&format!("{here}/virtfn{nth}"), &place);
            self.root.link(&format!("{place}/physfn"), here);
        }
    }

    fn around(&self, device: &Device) -> Around {
        let slot = |d: &Device| d.bdf.split('.').next().map(str::to_owned);
        let in_slot = self.machine.devices.iter().filter(|d| slot(d) == slot(device));
        Around { buses: self.buses(device), multifunction: in_slot.count() > 1 }
    }

    /// A bridge's buses: given, or from what sits below.
    fn buses(&self, device: &Device) -> [u8; 3] {
        let own = device.bus();
        let children = self.machine.below(&device.bdf).map(Device::bus).min();
        let given = device.buses.map(|(first, last)| (first.0 as u8, last.0 as u8));
        let secondary = children.or(given.map(|(first, _)| first)).unwrap_or(own);
        let last = given.map_or(secondary, |(_, last)| last);
        [own, secondary, last.max(self.last_bus(device))]
    }

    fn last_bus(&self, device: &Device) -> u8 {
        self.machine
            .below(&device.bdf)
            .map(|child| self.last_bus(child))
            .fold(device.bus(), u8::max)
    }

    fn nodes(&self) {
        let home = "sys/devices/system/node";
        for (node, cpus) in &self.machine.nodes {
            self.root.line(&format!("{home}/node{node}/cpulist"), cpus);
        }
        let nodes = list(self.machine.nodes.keys().copied());
        self.root.line(&format!("{home}/online"), &nodes);
        self.root.line(&format!("{home}/possible"), &nodes);
        let with_cpus = self.machine.nodes.iter().filter(|(_, cpus)| !cpus.is_empty());
        self.root.line(&format!("{home}/has_cpu"), list(with_cpus.map(|(n, _)| *n)));
        self.root.line("sys/devices/system/cpu/online", self.machine.all_cpus());
        self.root.line("sys/devices/system/cpu/possible", self.machine.all_cpus());
    }

    fn extra(&self) {
        let extra = &self.machine.extra;
        for path in &extra.empty_dirs {
            self.root.dir(path);
        }
        // A file alone would make a function without ids.
        let is_of_missing_function = |path: &str| {
            let function = path.strip_prefix("sys/bus/pci/devices/");
            let bdf = function.and_then(|path| path.split('/').next());
            bdf.is_some_and(|bdf| self.machine.devices.iter().all(|device| device.bdf != bdf))
        };
        let files = extra.files.iter();
        for (path, content) in files.filter(|(path, _)| !is_of_missing_function(path)) {
            self.root.put(path, content.bytes());
        }
        for (path, target) in &extra.links {
            self.root.raw_link(path, target);
        }
    }
}

fn uevent(device: &Device) -> String {
    let driver = device.driver.iter().map(|name| format!("DRIVER={name}"));
    driver
        .chain([
            format!("PCI_CLASS={:X}", device.class.0),
            format!("PCI_ID={:04X}:{:04X}", device.vendor.0, device.device.0),
            format!("PCI_SLOT_NAME={}", device.bdf),
        ])
        .collect::<Vec<_>>()
        .join("\n")
}

/// As the kernel's `modalias_show` writes it.
pub fn modalias(device: &Device) -> String {
    let (subvendor, subdevice) = device.subsystem.map_or((0, 0), |(vendor, id)| (vendor.0, id.0));
    let [_, base, sub, interface] = device.class.0.to_be_bytes();
    format!(
        "pci:v{:08X}d{:08X}sv{subvendor:08X}sd{subdevice:08X}bc{base:02X}sc{sub:02X}i{interface:02X}",
        device.vendor.0, device.device.0
    )
}

/// "32GT/s" as sysfs writes it: "32.0 GT/s PCIe".
fn speed_text(speed: &str) -> String {
    let number = speed.trim_end_matches("GT/s");
    let tenths = if number.contains('.') { "" } else { ".0" };
    format!("{number}{tenths} GT/s PCIe")
}

/// The numbers of "0-3,8".
pub fn numbers(list: &str) -> Vec<u32> {
    let number = |text: &str| -> u32 { text.parse().expect("a CPU list such as 0-3,8") };
    list.split(',')
        .filter(|part| !part.is_empty())
        .flat_map(|part| match part.split_once('-') {
            Some((first, last)) => number(first)..=number(last),
            None => number(part)..=number(part),
        })
        .collect()
}

/// The list of some numbers: "0-3,8".
pub fn list(numbers: impl Iterator<Item = u32>) -> String {
    let mut sorted: Vec<_> = numbers.collect();
    sorted.sort_unstable();
    sorted
        .chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [one] => one.to_string(),
            _ => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect::<Vec<_>>()
        .join(",")
}
