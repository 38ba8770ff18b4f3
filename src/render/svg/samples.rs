//! The machines of the tests.

use crate::model::{Fact, Facts};

use super::machines::Machine;

/// Two sockets with two switches each; two GPUs and two NICs below a switch. One link is narrow, one NIC is slow, one
/// switch has ACS enabled.
pub fn hgx() -> Facts {
    let mut machine = Machine::default().nvlinks(18);
    for switch in 0..4_u32 {
        let node = Some(switch / 2);
        let bus = [0x15, 0x37, 0x97, 0xb7][switch as usize];
        let root = format!("{bus:02x}:01.0");
        let up = format!("{:02x}:00.0", bus + 1);
        machine = machine.port(&root, &[], node, 0x1d).switch(&up, &[&root], node);
        for slot in 0..5 {
            let down = format!("{:02x}:{slot:02x}.0", bus + 2);
            let end = format!("{:02x}:00.0", bus + 3 + slot);
            let acs = if switch == 1 { 0x1d } else { 0x11 };
            machine = machine.port(&down, &[&root, &up], node, acs);
            let above: [&str; 3] = [&root, &up, &down];
            machine = match slot {
                0 | 2 if switch == 3 => machine.gpu(&end, &above, node, (1, 16, 5)),
                0 if switch == 2 => machine.gpu(&end, &above, node, (5, 8, 5)),
                0 | 2 => machine.gpu(&end, &above, node, (5, 16, 5)),
                1 if switch == 0 => machine.nic(&end, &above, node, (4, 16, 5)),
                1 | 3 => machine.nic(&end, &above, node, (5, 16, 5)),
                _ => machine.nvme(&end, &above, node),
            };
        }
        for other in 0..switch + 2 {
            machine = machine.other(&format!("{bus:02x}:1{other}.0"), &[]);
        }
    }
    machine.other("00:1f.0", &[]).other("00:1f.3", &[]).facts(2)
}

/// Two switches, with a GPU and two NICs below each.
pub fn two_nics() -> Facts {
    let mut machine = Machine::default();
    for bus in [0x15_u32, 0x37] {
        let root = format!("{bus:02x}:01.0");
        let up = format!("{:02x}:00.0", bus + 1);
        machine = machine.port(&root, &[], Some(0), 0).switch(&up, &[&root], Some(0));
        for slot in 0..3 {
            let down = format!("{:02x}:{slot:02x}.0", bus + 2);
            let end = format!("{:02x}:00.0", bus + 3 + slot);
            machine = machine.port(&down, &[&root, &up], Some(0), 0);
            let above: [&str; 3] = [&root, &up, &down];
            machine = match slot {
                1 => machine.gpu(&end, &above, Some(0), (5, 16, 5)),
                _ => machine.nic(&end, &above, Some(0), (5, 16, 5)),
            };
        }
    }
    machine.facts(1)
}

/// Two sockets with eight root ports each, on separate buses: one NIC for four GPUs each.
pub fn epyc() -> Facts {
    let mut machine = Machine::default();
    for root in 0..16_u32 {
        let (bus, node) = (root * 16, Some(root / 8));
        let port = format!("{bus:02x}:01.1");
        let end = format!("{:02x}:00.0", bus + 1);
        machine = machine.port(&port, &[], node, 0x1d);
        machine = match root % 8 {
            0 | 2 | 4 | 6 => machine.gpu(&end, &[&port], node, (1, 16, 5)),
            3 => machine.nic(&end, &[&port], node, (5, 16, 5)).nic(
                &format!("{:02x}:00.1", bus + 1),
                &[&port],
                node,
                (5, 16, 5),
            ),
            _ => machine.nvme(&end, &[&port], node),
        };
    }
    machine.facts(2)
}

/// One socket with a GPU and a NIC each, in different locations.
pub fn pair() -> Facts {
    Machine::default()
        .port("00:01.0", &[], Some(0), 0)
        .gpu("01:00.0", &["00:01.0"], Some(0), (1, 16, 4))
        .port("80:01.0", &[], Some(1), 0)
        .nic("81:00.0", &["80:01.0"], Some(1), (4, 8, 4))
        .facts(2)
}

/// A virtual machine: one GPU on the root bus, no NIC, no NUMA node.
pub fn guest() -> Facts {
    let mut facts = Machine::default()
        .gpu("00:05.0", &[], None, (0, 0, 0))
        .other("00:01.0", &[])
        .other("00:1f.0", &[])
        .facts(1);
    facts.host.name = None;
    facts.host.source = "machines/guest".to_owned();
    facts.nvml = Fact::default();
    facts
}

/// Two coherent superchips, each device in its own domain.
pub fn grace() -> Facts {
    let mut machine = Machine::default().nvlinks(6);
    for chip in 0..2_u32 {
        let at = |domain: u32, slot: &str| format!("{:04x}:{slot}", domain + chip * 0x10);
        let node = Some(chip);
        let (root, gpu) = (at(9, "00:00.0"), at(9, "01:00.0"));
        machine = machine.port(&root, &[], node, 0x1d).gpu(&gpu, &[&root], node, (5, 16, 5));
        let (root, nic) = (at(0, "00:00.0"), at(0, "01:00.0"));
        machine = machine.port(&root, &[], node, 0x1d).nic(&nic, &[&root], node, (5, 16, 5));
    }
    let mut facts = machine.facts(2);
    if let Fact::Known(devices) = &mut facts.pci {
        let gpus = devices.iter_mut().filter_map(|device| match &mut device.ids {
            Fact::Known(ids) if ids.is_nvidia_gpu() => Some(ids),
            _ => None,
        });
        gpus.for_each(|ids| ids.device = Some(0x2342));
    }
    facts
}

/// One root bus with sixteen root ports, wider than a page. The first leads to two cascaded switches, the next to a
/// device with a virtual function.
pub fn wide() -> Facts {
    let mut machine = Machine::default()
        .port("00:01.0", &[], Some(0), 0)
        .switch("01:00.0", &["00:01.0"], Some(0))
        .port("02:00.0", &["00:01.0", "01:00.0"], Some(0), 0)
        .port("02:01.0", &["00:01.0", "01:00.0"], Some(0), 0)
        .nic("03:00.0", &["00:01.0", "01:00.0", "02:00.0"], Some(0), (5, 16, 5));
    let inner = ["00:01.0", "01:00.0", "02:01.0", "04:00.0", "05:00.0"];
    machine = machine
        .switch(inner[3], &inner[..3], Some(0))
        .port(inner[4], &inner[..4], Some(0), 0x0c)
        .gpu("06:00.0", &inner, Some(0), (5, 16, 5));
    for root in 2..17_u32 {
        let port = format!("00:{root:02x}.0");
        let end = format!("{:02x}:00.0", root * 8);
        machine = machine.port(&port, &[], Some(0), 0);
        machine = match root % 3 {
            0 => machine.gpu(&end, &[&port], Some(0), (5, 16, 5)),
            1 => machine.nvme(&end, &[&port], Some(0)),
            _ => machine.nic(&end, &[&port], Some(0), (5, 16, 5)).nic(
                &format!("{:02x}:00.1", root * 8),
                &[&port],
                Some(0),
                (5, 16, 5),
            ),
        };
    }
    let mut facts = machine.software("rxe0").facts(1);
    if let Fact::Known(rdma) = &mut facts.rdma {
        rdma[2].physical_function = Fact::Known(rdma[1].place.known().copied().flatten());
    }
    facts.pci = facts.pci.map(|mut devices| {
        devices.iter_mut().for_each(|device| device.numa_node = Fact::Known(None));
        devices
    });
    facts
}
