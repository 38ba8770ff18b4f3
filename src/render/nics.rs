//! What people read of a NIC beside its name: its port, and what limits the path to a GPU.

use std::collections::BTreeMap;

use super::View;
use super::text::{bandwidth, printable};
use crate::model::{Bdf, Fact, Facts, RdmaDevice, Row};

/// The RDMA devices by name.
pub struct Nics<'a> {
    facts: &'a Facts,
    devices: BTreeMap<&'a str, &'a RdmaDevice>,
}

impl<'a> Nics<'a> {
    pub fn new(view: &View<'a>) -> Self {
        let mut devices = BTreeMap::new();
        for device in view.facts.rdma.known().into_iter().flatten() {
            devices.entry(device.name.as_str()).or_insert(device);
        }
        Self { facts: view.facts, devices }
    }

    /// As in `mlx5_0 port 1: ACTIVE, 400 Gb/s InfiniBand`; none without an RDMA device of this name.
    pub fn port(&self, nic: &Row) -> Option<String> {
        let device = self.devices.get(nic.label.as_str())?;
        let port = device.main_port()?;
        let name = printable(&nic.label);
        // The kernel gives a rate to ports that are down, too.
        let speed = port.speed().filter(|_| port.is_active());
        let layer = port.link_layer.known();
        let known = |layer: &&String| layer.as_str() != "Unspecified";
        let words = [speed, layer.filter(known).map(|layer| printable(layer))];
        let state = port.state.known().map(|state| printable(state));
        let bond = self.facts.bond(device, port);
        let bond =
            bond.map(|(ports, rate)| format!("({rate} Gb/s if its {ports} ports are bonded)"));
        let words = words.into_iter().flatten().chain(bond).collect::<Vec<_>>().join(" ");
        let words: Vec<String> =
            state.into_iter().chain((!words.is_empty()).then_some(words)).collect();
        Some(if words.is_empty() {
            format!("{name} port {}", port.number)
        } else {
            format!("{name} port {}: {}", port.number, words.join(", "))
        })
    }

    /// The numbers of the active ports, else of the first port.
    pub fn port_numbers(&self, nic: &Row) -> Vec<u32> {
        let device = self.devices.get(nic.label.as_str());
        let ports = device.and_then(|device| device.ports.known());
        let ports = ports.map_or(&[][..], Vec::as_slice);
        let active: Vec<u32> =
            ports.iter().filter(|port| port.is_active()).map(|port| port.number).collect();
        if active.is_empty() { vec![ports.first().map_or(1, |port| port.number)] } else { active }
    }
}

/// As in `63.0 GB/s, limited by the link of GPU0: PCIe 5.0 x16`; none if it is unknown.
pub fn limit(view: &View<'_>, gpu: usize, nic: usize) -> Option<String> {
    let limit = view.topology.limit(gpu, nic);
    let limit = limit.known()?;
    let part = match view.topology.row_at(limit.below) {
        Some(row) => view.topology.rows[row].name.clone(),
        None => format!("the bridge {}", limit.below),
    };
    Some(format!(
        "{}, limited by the link of {part}: PCIe {}.0 x{}{}",
        bandwidth(limit.bytes_per_second),
        limit.link.speed.0,
        limit.link.width,
        shared(view, limit.below, [gpu, nic])
    ))
}

/// Other rows that use a link: the first names, and the number of others.
fn shared(view: &View<'_>, below: Bdf, ends: [usize; 2]) -> String {
    const SHOWN: usize = 32;
    let rows = view.topology.sharers(below, ends).take(SHOWN);
    let names: Vec<&str> = rows.map(|row| row.name.as_str()).collect();
    let more = view.topology.sharer_count(below, ends) - names.len();
    match (names.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(", shared with {}", names.join(" ")),
        (false, more) => format!(", shared with {} and {more} more", names.join(" ")),
    }
}

/// The names of rows, separated by spaces.
pub fn names(view: &View<'_>, rows: impl Iterator<Item = usize>) -> String {
    let names: Vec<&str> = rows.map(|row| view.topology.rows[row].name.as_str()).collect();
    names.join(" ")
}

/// True if a fact about NVLinks is missing for a pair of GPUs.
pub fn has_unknown_nvlinks(view: &View<'_>, a: usize, b: usize) -> bool {
    let pair = view.topology.pair(a, b);
    pair.is_some_and(|pair| matches!(pair.nvlinks, Fact::Unknown(_)))
}
