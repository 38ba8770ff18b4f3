//! PCIe trees as data, the source of QEMU's arguments and of the guest's plan of look-alikes.
//!
//! A look-alike is a QEMU endpoint whose sysfs identity files are covered, in the guest, by those of an NVIDIA device. Ports are never
//! covered: their configuration space is real.

/// An additional root complex: a `pxb-pcie`, which has a NUMA node, unlike q35's own.
#[derive(Clone, Copy, Debug)]
pub struct HostBridge {
    /// Its root bus; buses below are numbered from here.
    pub bus: u8,
    pub node: u8,
    /// Devices on the root bus.
    pub slots: &'static [Slot],
}

/// A device on a bus, with the bus below it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Device number; the function is 0.
    pub device: u8,
    pub part: Part,
    /// For a port: devices on the bus below.
    pub below: &'static [Slot],
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A root port, also in place of a switch's downstream port, because QEMU's own downstream port has no ACS. It reports itself as a root
    /// port.
    Port,
    /// A switch's upstream port.
    Upstream,
    /// A GPU look-alike: H100 SXM5, based on an NVMe controller with PCIe capabilities and a prefetchable BAR 2.
    Gpu,
    /// A NIC look-alike: ConnectX-7 with this RDMA device name, based on an e1000e.
    Nic(&'static str),
}

/// The identity of an endpoint in the guest.
struct Identity {
    vendor: u16,
    device: u16,
    class: u32,
    revision: u8,
    subsystem: (u16, u16),
}

// From pci.ids and lspci of real machines.
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
        // High device numbers, which QEMU does not use on the first root bus.
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

/// The guest's plan, one line per look-alike: kind, name, sysfs path, then [`Identity::words`]. The path is a pattern, because firmware
/// assigns the bus numbers below the root bus.
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

impl Identity {
    /// Fields for the guest's shell, computed here because each process takes 30 ms under emulation: bytes at 0x00, 0x08 and 0x2c of the
    /// configuration space in printf syntax, then vendor, device, class, revision, subsystem vendor and device, and modalias as in sysfs.
    fn words(&self) -> String {
        let Self { vendor, device, class, revision, subsystem: (subvendor, subdevice) } = *self;
        let [_, base, sub, interface] = class.to_be_bytes();
        let pair = |first: u16, second: u16| {
            escaped(&[first.to_le_bytes(), second.to_le_bytes()].concat())
        };
        let (ids, kind) = (pair(vendor, device), escaped(&[revision, interface, sub, base]));
        let subsystem = pair(subvendor, subdevice);
        let modalias = format!(
            "pci:v{vendor:08X}d{device:08X}sv{subvendor:08X}sd{subdevice:08X}bc{base:02X}sc{sub:02X}i{interface:02X}"
        );
        format!(
            "{ids} {kind} {subsystem} 0x{vendor:04x} 0x{device:04x} 0x{class:06x} 0x{revision:02x} \
             0x{subvendor:04x} 0x{subdevice:04x} {modalias}"
        )
    }
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

impl Slot {
    fn devices(&self, bus: &str, devices: &mut Vec<String>) {
        let id = format!("{bus}-{:x}", self.device);
        // Ports need unique chassis and slot numbers: the number of devices so far.
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
        let line =
            |kind, name, identity: Identity| format!("{kind} {name} {path} {}\n", identity.words());
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

#[cfg(test)]
mod tests {
    use super::CONNECTX7;

    #[test]
    fn identity_of_connectx7() {
        // modalias and bytes of a ConnectX-7, from Documentation/ABI/testing/sysfs-bus-pci and the layout of the PCI header.
        let words = CONNECTX7.words();
        assert!(
            words.ends_with("pci:v000015B3d00001021sv000015B3sd00000023bc02sc00i00"),
            "{words}"
        );
        assert!(
            words.starts_with(
                r"\xb3\x15\x21\x10 \x00\x00\x00\x02 \xb3\x15\x23\x00 0x15b3 0x1021 0x020000"
            ),
            "{words}"
        );
    }
}
