//! What a machine's topology promises to a probe: its GPUs, its RDMA devices, and the ways between them.

use std::collections::BTreeMap;

use super::machine::Machine;
use crate::model::{Bdf, Fact, Facts, Kind, NumaNode, RdmaPort, Topology};
use crate::probe::child::usable;
use crate::probe::p2p::Between;
use crate::probe::supervise::{self, Card, Place, Way};
use crate::topo::{self, Forest};

/// What the PCI tree promises.
pub fn promised(machine: &Machine, facts: &Facts) -> supervise::Machine {
    let names = machine.names();
    let topology = topo::topology(facts);
    let forest = Forest::new(facts.devices());
    let gpus = topology.rows_of(Kind::Gpu).filter_map(|(_, row)| {
        let bdf = row.bdf?;
        let link = match facts.device(bdf).map(|device| forest.link_above(device)) {
            // A GPU that idles has slowed its link down: what counts is what it can be.
            Some(Fact::Known(Some(link))) => link.max.bytes_per_second().filter(|rate| *rate > 0),
            _ => None,
        };
        Some(Place {
            name: row.name.clone(),
            label: match (
                row.label.as_str(),
                facts.device(bdf).and_then(|device| device.ids.known()),
            ) {
                ("", Some(ids)) => names.of(ids),
                (label, _) => label.to_owned(),
            },
            bdf,
            numa: row.numa.present().copied(),
            // The CPU reaches a coherent GPU's memory over NVLink-C2C.
            link: link.filter(|_| !row.coherent),
        })
    });
    let nodes = facts.numa.known().into_iter().flatten();
    // A job that was given the CPUs of one node probes from there.
    let within_reach = |node: &NumaNode| NumaNode {
        id: node.id,
        cpus: usable(&node.cpus),
    };
    supervise::Machine {
        host: facts.host.clone(),
        gpus: gpus.collect(),
        nodes: nodes.map(within_reach).collect(),
        ways: ways(facts, &topology, &forest),
        cards: cards(facts, &topology, &forest),
    }
}

/// The ways between the GPUs, each in both directions.
fn ways(facts: &Facts, topology: &Topology, forest: &Forest<'_>) -> Vec<Way> {
    let gpus: Vec<(usize, Bdf)> = topology
        .rows_of(Kind::Gpu)
        .filter_map(|(at, row)| Some((at, row.bdf?)))
        .collect();
    let ends = gpus
        .iter()
        .flat_map(|a| gpus.iter().filter(move |b| b != &a).map(move |b| (*a, *b)));
    ends.map(|((a, from), (b, to))| {
        let pair = topology.pair(a, b);
        let path = topo::between(facts, forest, topology, a, b).ok();
        let narrowest = path.as_ref().and_then(|path| path.bottleneck.known());
        Way {
            from,
            to,
            between: Between {
                nvlinks: pair.and_then(|pair| pair.nvlinks.known().copied()),
                pci: narrowest
                    .map(|narrowest| narrowest.bytes_per_second)
                    .filter(|rate| *rate > 0),
                class: pair
                    .and_then(|pair| pair.pci.known())
                    .map(|class| class.letters().to_owned()),
                nvml: granted(facts, from, to),
            },
        }
    })
    .collect()
}

/// What NVML says of one GPU reaching another.
fn granted(facts: &Facts, from: Bdf, to: Bdf) -> BTreeMap<String, String> {
    let Some(nvml) = facts.nvml() else {
        return BTreeMap::new();
    };
    let index = |bdf| nvml.gpus.iter().find(|gpu| gpu.bdf == bdf).map(|gpu| gpu.index);
    let pair = nvml
        .pairs
        .iter()
        .find(|pair| (Some(pair.from), Some(pair.to)) == (index(from), index(to)));
    let said = pair.into_iter().flat_map(|pair| &pair.p2p);
    said.filter_map(|(what, status)| Some((what.words().to_owned(), status.known()?.words().to_owned())))
        .collect()
}

/// The RDMA devices that carry data, by their numbers.
fn cards(facts: &Facts, topology: &Topology, forest: &Forest<'_>) -> Vec<Card> {
    let devices = facts.rdma.known().into_iter().flatten();
    let mut cards = Vec::new();
    for (row, nic) in topology.rows_of(Kind::Nic) {
        let Some(device) = devices.clone().find(|device| device.name == nic.label) else {
            continue;
        };
        // A management function of an NVSwitch system carries no data.
        if device.management.known() == Some(&true) {
            continue;
        }
        let ports = device.ports.known().into_iter().flatten();
        let gpus = topology.rows_of(Kind::Gpu);
        let gpus: Vec<(usize, Bdf)> = gpus.filter_map(|(gpu, found)| Some((gpu, found.bdf?))).collect();
        cards.push(Card {
            name: device.name.clone(),
            bdf: nic.bdf,
            software: nic.software,
            ports: ports.filter_map(port).collect(),
            best_of: gpus
                .iter()
                .copied()
                .filter(|(gpu, _)| {
                    topology
                        .matches
                        .iter()
                        .any(|found| (found.row, found.pick) == (*gpu, Some(row)))
                })
                .map(|(_, bdf)| bdf)
                .collect(),
            reaches: gpus
                .into_iter()
                .map(|(gpu, bdf)| {
                    let class = topology.pair(gpu, row).and_then(|pair| pair.pci.known());
                    let path = topo::between(facts, forest, topology, gpu, row).ok();
                    let narrowest = path.as_ref().and_then(|path| path.bottleneck.known());
                    let rate = narrowest
                        .map(|narrowest| narrowest.bytes_per_second)
                        .filter(|rate| *rate > 0);
                    (bdf, class.map(|class| class.letters().to_owned()), rate)
                })
                .collect(),
        });
    }
    cards.sort_by_key(|card| crate::model::RdmaDevice::natural(&card.name));
    cards
}

/// A port that is up, and what it carries.
fn port(port: &RdmaPort) -> Option<(u8, Option<u64>)> {
    // As in `4: ACTIVE`, or `ACTIVE`.
    let is_up = port.state.known().is_some_and(|state| state.ends_with("ACTIVE"));
    let number = u8::try_from(port.number).ok().filter(|_| is_up)?;
    Some((number, port.rate.known().and_then(|rate| bytes_per_second(rate))))
}

/// Of a rate as in `400 Gb/sec (4X NDR)`.
fn bytes_per_second(rate: &str) -> Option<u64> {
    let (number, unit) = rate.split_once(' ')?;
    let gigabits: f64 = number
        .parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate > 0.0)?;
    unit.starts_with("Gb/sec").then_some((gigabits * 1e9 / 8.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_in_bytes_a_second() {
        for (rate, bytes) in [
            ("400 Gb/sec (4X NDR)", Some(50_000_000_000)),
            ("2.5 Gb/sec (1X SDR)", Some(312_500_000)),
            ("0 Gb/sec", None),
            ("100 Mb/sec", None),
            ("fast", None),
        ] {
            assert_eq!(bytes_per_second(rate), bytes, "{rate}");
        }
    }
}
