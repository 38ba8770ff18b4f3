//! Where another NIC belongs, one piece of advice for each card.

use std::collections::{BTreeMap, BTreeSet};

use super::Topology;
use super::share::{Device, device_of};
use crate::model::{Facts, Ids, Kind, Match, RootBus, Row, Verdict};

/// Adds to each GPU with a bad NIC which card to move where. A card goes to one place: the other GPUs get a card of their own. No advice
/// where NICs cannot move.
pub fn advise(topology: &Topology<'_>, matches: &mut [Match]) {
    let facts = topology.facts;
    if facts.platform.is_guest() || has_board(facts) {
        return;
    }
    let rows = &topology.rows;
    let is_served = |found: &Match| matches!(found.verdict, Verdict::Good | Verdict::LikelyGood);
    // Cards that GPUs would miss elsewhere.
    let served = matches.iter().filter(|found| is_served(found));
    let needed: BTreeSet<Device> = served
        .flat_map(|found| found.pick.iter().chain(&found.nccl))
        .map(|nic| device_of(rows, *nic))
        .collect();
    let needs_another = |found: &Match| {
        found.verdict == Verdict::Bad
            && found.nearer_down.is_none()
            && rows[found.row].kind == Kind::Gpu
            && !is_on_board(&rows[found.row])
    };
    // The GPUs that one card can be near to, and the first place for each card.
    let place = |found: &Match| Some((device_of(rows, found.pick?), side(topology, found.row)));
    let mut gpus: BTreeMap<(Device, Side), Vec<usize>> = BTreeMap::new();
    let mut first: BTreeMap<Device, Side> = BTreeMap::new();
    for found in matches.iter().filter(|found| needs_another(found)) {
        if let Some((card, side)) = place(found) {
            gpus.entry((card, side)).or_default().push(found.row);
            first.entry(card).or_insert(side);
        }
    }
    for found in matches.iter_mut().filter(|found| needs_another(found)) {
        if let (Some(nic), Some((card, side))) = (found.pick, place(found)) {
            let is_free = !needed.contains(&card) && first.get(&card) == Some(&side);
            let gpus = gpus.get(&(card, side)).map_or(&[][..], Vec::as_slice);
            found.advice = Some(sentence(topology, gpus, nic, is_free));
        }
    }
}

/// The GPUs are parts of a board (HGX, DGX) with NVSwitches, whose maker chose the places of the NICs.
fn has_board(facts: &Facts) -> bool {
    let mut devices = facts.devices().iter();
    devices.any(|device| device.ids.known().is_some_and(Ids::is_nvswitch))
}

/// The GPU is a module of such a board, or of a superchip; or its address, and so its model, is unknown.
fn is_on_board(gpu: &Row) -> bool {
    gpu.bdf.is_none() || gpu.coherent || gpu.integrated || gpu.module
}

/// The host bridge above a GPU, or the GPU itself where that is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Root(RootBus),
    Row(usize),
}

fn side(topology: &Topology<'_>, row: usize) -> Side {
    root(topology, row).map_or(Side::Row(row), Side::Root)
}

fn root(topology: &Topology<'_>, row: usize) -> Option<RootBus> {
    let place = topology.device(row)?.place.known()?;
    place.rooted.then_some(place.root)
}

/// `gpus` are below one host bridge. The card of the NIC may move if it is free.
fn sentence(topology: &Topology<'_>, gpus: &[usize], nic: usize, is_free: bool) -> String {
    let rows = &topology.rows;
    let names: Vec<String> =
        gpus.iter().map(|gpu| addressed(&rows[*gpu].name, &rows[*gpu])).collect();
    let first = gpus.first().copied();
    let bus = first.and_then(|gpu| root(topology, gpu));
    let bus = bus.map_or_else(|| "its root bus".to_owned(), |root| root.to_string());
    let node = first.and_then(|gpu| rows[gpu].numa.present().copied());
    let node = node.map_or_else(String::new, |node| format!(", NUMA node {node}"));
    let place = first.and_then(|gpu| topology.device(gpu)?.place.known());
    let below = match place.map_or(0, |place| place.bridges.len()) {
        0 | 1 => "",
        _ => ", best below the same switch",
    };
    let slot = format!("a slot on the host bridge of {}: {bus}{node}{below}", names.join(" and "));
    let card = card(topology, nic);
    if is_free {
        let from = root(topology, nic).map_or_else(String::new, |root| format!(" from {root}"));
        format!("Move {card}{from}, or put another NIC, to {slot}.")
    } else {
        format!("Put another NIC into {slot}; {card} cannot be there too.")
    }
}

/// All NICs of one card.
fn card(topology: &Topology<'_>, nic: usize) -> String {
    let rows = &topology.rows;
    let mine = device_of(rows, nic);
    let ports: Vec<&Row> = topology
        .rows_of(Kind::Nic)
        .filter(|(row, _)| device_of(rows, *row) == mine)
        .map(|(_, row)| row)
        .collect();
    match ports.as_slice() {
        [] | [_] => addressed(&rows[nic].label, &rows[nic]),
        ports => {
            let names: Vec<&str> = ports.iter().map(|row| row.label.as_str()).collect();
            let bdf = ports.iter().filter(|row| row.named);
            let bdf = bdf.filter_map(|row| row.bdf).min();
            let address = bdf.map_or_else(String::new, |bdf| format!(", {bdf}"));
            format!("{} (one card{address})", names.join(" and "))
        }
    }
}

fn addressed(name: &str, row: &Row) -> String {
    match row.bdf {
        // A NIC in a list of PCI functions has its address as its name.
        Some(bdf) if row.named => format!("{name} ({bdf})"),
        _ => name.to_owned(),
    }
}
