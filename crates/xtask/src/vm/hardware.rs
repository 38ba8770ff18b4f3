//! The PCIe tree of a machine as data, from which come both QEMU's arguments and the guest's plan of look-alikes.
//!
//! A look-alike is an endpoint of QEMU whose identity files in sysfs are covered, inside the guest, by files that name
//! an NVIDIA part. Ports are never covered: their configuration space is alive, and a write to it is a real write.

/// A second (third, …) root complex: a `pxb-pcie`, which, unlike q35's own, has a NUMA node.
#[derive(Clone, Copy, Debug)]
pub struct HostBridge {
    /// Its root bus; buses below are numbered upwards from here.
    pub bus: u8,
    /// Its NUMA node.
    pub node: u8,
    /// What sits on the root bus.
    pub slots: &'static [Slot],
}

/// A part at a device number of its bus, with what is below it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The device number; the function is always 0.
    pub device: u8,
    /// What it is.
    pub part: Part,
    /// What is on the bus below, for a port.
    pub below: &'static [Slot],
}

/// The parts machines are made of.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A root port, or below a switch's upstream port its downstream port: QEMU's own downstream port has no ACS, so
    /// this is a root port there too, and calls itself one.
    Port,
    /// A switch's upstream port.
    Upstream,
    /// A GPU look-alike: H100 SXM5. Underneath an NVMe controller, for its PCIe capabilities and its prefetchable BAR 2.
    Gpu,
    /// A NIC look-alike: ConnectX-7 under this RDMA name. Underneath an e1000e.
    Nic(&'static str),
}

/// The identity an endpoint is given in the guest.
struct Identity {
    vendor: u16,
    device: u16,
    class: u32,
    revision: u8,
    subsystem: (u16, u16),
}

// Numbers from pci.ids and from lspci of such machines.
const H100: Identity = Identity {
    vendor: 0x10de,
    device: 0x2330,
    class: 0x03_0200,
    revision: 0xa1,
    subsystem: (0x10de, 0x16c1),
};
const CONNECTX7: Identity = Identity {
    vendor: 0x15b3,
    device: 0x1021,
    class: 0x02_0000,
    revision: 0,
    subsystem: (0x15b3, 0x0023),
};

/// QEMU's `-device` arguments, parents first.
pub fn devices(bridges: &[HostBridge]) -> Vec<String> {
    let mut devices = Vec::new();
    for (index, bridge) in bridges.iter().enumerate() {
        let id = format!("pxb{:02x}", bridge.bus);
        // High device numbers of the first root bus, away from what QEMU places there itself.
        let place = 0x10 + index;
        devices.push(format!(
            "pxb-pcie,id={id},bus_nr={},numa_node={},bus=pcie.0,addr={place:#x}",
            bridge.bus, bridge.node
        ));
        for slot in bridge.slots {
            slot.devices(&id, &mut devices);
        }
    }
    devices
}

/// The guest's plan: a line a look-alike, `KIND NAME SYSFS-PATH VENDOR DEVICE CLASS REVISION SUBVENDOR SUBDEVICE`. Bus
/// numbers below the root bus are the firmware's to choose, so that the path is a pattern.
pub fn plan(bridges: &[HostBridge]) -> String {
    let mut plan = String::new();
    for bridge in bridges {
        let root = format!("/sys/devices/pci0000:{:02x}", bridge.bus);
        for slot in bridge.slots {
            slot.plan(&root, &format!("{:02x}", bridge.bus), &mut plan);
        }
    }
    plan
}

impl Slot {
    fn devices(&self, bus: &str, devices: &mut Vec<String>) {
        let id = format!("{bus}-{:x}", self.device);
        // Ports need a chassis and slot number of their own; the count of devices so far is one.
        let number = devices.len();
        let part = match self.part {
            Part::Port => {
                format!("pcie-root-port,chassis={number},slot={number},x-speed=16,x-width=16")
            }
            Part::Upstream => "x3130-upstream".to_owned(),
            Part::Gpu => format!("nvme,serial=look-alike-{number},cmb_size_mb=64"),
            Part::Nic(_) => "e1000e,romfile=".to_owned(),
        };
        devices.push(format!("{part},id={id},bus={bus},addr={:#x}", self.device));
        for slot in self.below {
            slot.devices(&id, devices);
        }
    }

    fn plan(&self, above: &str, bus: &str, plan: &mut String) {
        let path = format!("{above}/0000:{bus}:{:02x}.0", self.device);
        let line = |kind, name, it: Identity| {
            let (subvendor, subdevice) = it.subsystem;
            format!(
                "{kind} {name} {path} {:04x} {:04x} {:06x} {:02x} {subvendor:04x} {subdevice:04x}\n",
                it.vendor, it.device, it.class, it.revision
            )
        };
        match self.part {
            Part::Gpu => plan.push_str(&line("gpu", "-", H100)),
            Part::Nic(name) => plan.push_str(&line("nic", name, CONNECTX7)),
            Part::Port | Part::Upstream => {}
        }
        for slot in self.below {
            slot.plan(&path, "*", plan);
        }
    }
}
