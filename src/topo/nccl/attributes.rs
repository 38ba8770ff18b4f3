//! The attributes of CPUs, functions and networks.

use super::LONGEST;
use crate::model::config::{Header, HeaderKind};
use crate::model::{Bdf, Fact, Facts, IdList, Ids, LinkSpeed, NcclElement, Row};
use crate::topo::Topology;

/// CPUs whose mask NCCL can store: nine characters for each 32.
const MAX_CPUS: u32 = (LONGEST as u32 + 1) / 9 * 32;

type Attributes = Vec<(String, String)>;

fn push(attributes: &mut Attributes, name: &str, value: String) {
    if value.len() <= LONGEST {
        attributes.push((name.to_owned(), value));
    }
}

/// NUMA node, CPUs and architecture. NCCL reads the CPU's vendor and model from the CPU.
pub fn cpu(facts: &Facts, node: i64) -> Attributes {
    let mut attributes = Vec::new();
    push(&mut attributes, "numaid", node.to_string());
    let nodes = facts.numa.known().map_or(&[][..], Vec::as_slice);
    if let Some(own) = nodes.iter().find(|known| i64::from(known.id) == node) {
        let last = nodes.iter().filter_map(|node| node.cpus.last()).max().unwrap_or(0);
        if last < MAX_CPUS {
            push(&mut attributes, "affinity", mask(&own.cpus, last));
        }
    }
    let architecture = facts.platform.architecture.known().map(String::as_str);
    let arch = match architecture {
        Some("x86_64") => Some("x86_64"),
        Some("aarch64") => Some("arm64"),
        Some("ppc64le") => Some("ppc64"),
        _ => None,
    };
    if let Some(arch) = arch {
        push(&mut attributes, "arch", arch.to_owned());
    }
    attributes
}

/// A set of CPUs as the kernel prints a mask: words of 32 bits, the highest first.
fn mask(cpus: &IdList, last: u32) -> String {
    let words = (0..=last / 32).rev().map(|word| {
        let bits = (0..32).filter(|bit| cpus.contains(word * 32 + bit));
        format!("{:08x}", bits.fold(0_u32, |bits, bit| bits | 1 << bit))
    });
    words.collect::<Vec<_>>().join(",")
}

/// Address, class, ids and link of a function; an error has what is known if the link is not.
pub fn pci(topology: &Topology<'_>, bdf: Bdf) -> Result<Attributes, Attributes> {
    let mut attributes = Vec::new();
    push(&mut attributes, "busid", bdf.to_string());
    let Some(device) = topology.facts.device(bdf) else {
        return Err(attributes);
    };
    if let Fact::Known(ids) = &device.ids {
        push(&mut attributes, "class", format!("0x{:06x}", ids.class));
        push(&mut attributes, "vendor", format!("0x{:04x}", ids.vendor));
        if let Some(device) = ids.device {
            push(&mut attributes, "device", format!("0x{device:04x}"));
        }
    }
    // NCCL tells a few switches by it.
    if let Fact::Known(Header {
        kind: HeaderKind::Bridge { subsystem: Fact::Known(Some(subsystem)), .. },
        ..
    }) = &device.config.header
    {
        push(&mut attributes, "subsystem_vendor", format!("0x{:04x}", subsystem.vendor));
        push(&mut attributes, "subsystem_device", format!("0x{:04x}", subsystem.device));
    }
    match topology.forest.link_above(device) {
        Fact::Known(Some(link)) => {
            push(&mut attributes, "link_speed", speed(link.max.speed));
            let is_on_root_bus = device.place.known().is_some_and(|place| place.bridges.is_empty());
            // NCCL finds no port above and writes 0, which it takes for 16.
            let width = if is_on_root_bus { 0 } else { link.max.width };
            push(&mut attributes, "link_width", width.to_string());
            Ok(attributes)
        }
        Fact::Known(None) => Ok(attributes),
        Fact::Unknown(_) => Err(attributes),
    }
}

/// The speed in the kernel's words, which NCCL compares as a text.
fn speed(speed: LinkSpeed) -> String {
    speed.gigatransfers().map_or_else(String::new, |rate| format!("{rate:.1} GT/s PCIe"))
}

/// The network of a NIC as NCCL's own plugin names it; none if that plugin does not use the NIC, an error if its ports are unknown.
/// NCCL sets `dev`, `latency`, `guid`, `maxconn` and `gdr` itself.
pub fn net(facts: &Facts, row: &Row) -> Result<Option<NcclElement>, ()> {
    let nics = facts.rdma.known().filter(|_| row.named).ok_or(())?;
    let nic = nics.iter().find(|nic| nic.name == row.label).ok_or(())?;
    let ports = nic.ports.known().ok_or(())?;
    let ids = row.bdf.and_then(|bdf| facts.device(bdf)).and_then(|device| device.ids.known());
    if ids.is_some_and(Ids::is_efa) || nic.name.contains(['<', '>', '"', '&']) {
        return Ok(None);
    }
    if ports.iter().any(|port| port.state.known().is_none()) {
        return Err(());
    }
    // NCCL finds an element by its name, so a device has one.
    let Some(port) = ports.iter().find(|port| port.is_active()) else {
        return Ok(None);
    };
    let mut net = NcclElement::new("net");
    push(&mut net.attributes, "name", nic.name.clone());
    if let Some(rate) = port.speed().and_then(|speed| megabits(&speed)) {
        push(&mut net.attributes, "speed", rate.to_string());
    }
    push(&mut net.attributes, "port", port.number.to_string());
    Ok(Some(net))
}

/// `400 Gb/s` → 400000.
fn megabits(speed: &str) -> Option<u64> {
    let rate: f64 = speed.strip_suffix(" Gb/s")?.parse().ok()?;
    let megabits = rate * 1000.0;
    (1.0..1e9).contains(&megabits).then_some(megabits.round() as u64)
}
