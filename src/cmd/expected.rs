//! The machine as a probe expects it: GPUs, RDMA devices, and the paths between them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;

use super::machine::Machine;
use crate::model::Order as _;
use crate::model::{Bdf, Fact, Facts, Kind, NumaNode, NvmlPair, RdmaDevice, RdmaPath, RdmaPort};
use crate::probe::cpus::usable;
use crate::probe::machine::{self, GpuPath, LocatedGpu, NicPath, ProbedNic};
use crate::topo::{self, Topology};

/// The expected machine. A probe compares every pair with a GPU, so too many devices are an error.
pub fn expected_machine(machine: &Machine, facts: &Facts) -> anyhow::Result<machine::Machine> {
    let names = machine.names();
    let topology = topo::topology(facts);
    if let Some(omission) = topology.omission() {
        bail!("a probe needs the path of every pair with a GPU: {omission}");
    }
    let forest = &topology.forest;
    let gpus = topology.rows_of(Kind::Gpu).filter_map(|(_, row)| {
        let bdf = row.bdf?;
        let link = match facts.device(bdf).map(|device| forest.link_above(device)) {
            // An idle GPU may slow its link down: use the maximum.
            Some(Fact::Known(Some(link))) => link.max.bytes_per_second().filter(|rate| *rate > 0),
            _ => None,
        };
        Some(LocatedGpu {
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
    // A job may be limited to the CPUs of one node.
    let usable_node = |node: &NumaNode| NumaNode { id: node.id, cpus: usable(&node.cpus) };
    Ok(machine::Machine {
        host: facts.host.clone(),
        gpus: gpus.collect(),
        nodes: nodes.map(usable_node).collect(),
        paths: paths(facts, &topology),
        nics: nics(facts, &topology),
    })
}

/// The paths between the GPUs, each in both directions.
fn paths(facts: &Facts, topology: &Topology<'_>) -> BTreeMap<(Bdf, Bdf), GpuPath> {
    let peers = PeerStatus::new(facts);
    let gpus: Vec<(usize, Bdf)> =
        topology.rows_of(Kind::Gpu).filter_map(|(at, row)| Some((at, row.bdf?))).collect();
    let ends =
        gpus.iter().flat_map(|a| gpus.iter().filter(move |b| b != &a).map(move |b| (*a, *b)));
    ends.map(|((a, from), (b, to))| {
        let pair = topology.pair(a, b);
        let between = GpuPath {
            nvlinks: pair.and_then(|pair| pair.nvlinks.known().copied()),
            pci: rate(topology, a, b),
            class: topology.class(a, b).map(|class| class.letters().to_owned()),
            nvml: peers.of(from, to),
        };
        ((from, to), between)
    })
    .collect()
}

/// Bandwidth of the narrowest link between two rows.
fn rate(topology: &Topology<'_>, a: usize, b: usize) -> Option<u64> {
    let path = topology.route(a, b).ok()?;
    let narrowest = topo::narrowest(&path);
    narrowest.known().map(|narrowest| narrowest.bytes_per_second).filter(|rate| *rate > 0)
}

/// NVML's peer-to-peer status, by pair of GPUs.
#[derive(Default)]
struct PeerStatus<'a> {
    indices: BTreeMap<Bdf, u32>,
    pairs: BTreeMap<(u32, u32), &'a NvmlPair>,
}

impl<'a> PeerStatus<'a> {
    fn new(facts: &'a Facts) -> Self {
        let mut peers = Self::default();
        for gpu in facts.nvml().into_iter().flat_map(|nvml| &nvml.gpus) {
            peers.indices.entry(gpu.bdf).or_insert(gpu.index);
        }
        for pair in facts.nvml().into_iter().flat_map(|nvml| &nvml.pairs) {
            peers.pairs.entry((pair.from, pair.to)).or_insert(pair);
        }
        peers
    }

    fn of(&self, from: Bdf, to: Bdf) -> BTreeMap<String, String> {
        let index = |bdf| self.indices.get(&bdf).copied();
        let pair = index(from).zip(index(to)).and_then(|pair| self.pairs.get(&pair));
        let status = pair.into_iter().flat_map(|pair| &pair.p2p);
        status
            .filter_map(|(what, status)| {
                Some((what.words().to_owned(), status.known()?.words().to_owned()))
            })
            .collect()
    }
}

/// The RDMA devices that carry data, sorted by number.
fn nics(facts: &Facts, topology: &Topology<'_>) -> Vec<ProbedNic> {
    let mut devices: BTreeMap<&str, &RdmaDevice> = BTreeMap::new();
    for device in facts.rdma.known().into_iter().flatten() {
        devices.entry(&device.name).or_insert(device);
    }
    let picks: BTreeSet<_> = topology.matches.iter().map(|found| (found.row, found.pick)).collect();
    let mut nics = Vec::new();
    for (row, nic) in topology.rows_of(Kind::Nic) {
        let Some(device) = devices.get(nic.label.as_str()) else {
            continue;
        };
        // A management function of an NVSwitch system carries no data.
        if device.management.known() == Some(&true) {
            continue;
        }
        let ports = device.ports.known().into_iter().flatten();
        let gpus = topology.rows_of(Kind::Gpu);
        let gpus: Vec<(usize, Bdf)> =
            gpus.filter_map(|(gpu, found)| Some((gpu, found.bdf?))).collect();
        let virtual_function = facts.virtual_function(device);
        nics.push(ProbedNic {
            name: device.name.clone(),
            bdf: nic.bdf,
            driver: function_driver(facts, nic.bdf),
            software: nic.software,
            numa: nic.numa.present().copied(),
            ports: ports.filter_map(port).collect(),
            bonded: 1 + u32::try_from(facts.bonded_functions(device).len()).unwrap_or(0),
            best_of: gpus
                .iter()
                .copied()
                .filter(|(gpu, _)| picks.contains(&(*gpu, Some(row))))
                .map(|(_, bdf)| bdf)
                .collect(),
            reaches: gpus
                .into_iter()
                .map(|(gpu, bdf)| nic_path(topology, (gpu, bdf), row))
                .collect(),
            functions: functions(facts, nic.bdf),
            virtual_function,
            // A virtual function's own bit is reserved (PCIe 9.3.5.4): its physical function decides.
            relaxed_ordering: match virtual_function {
                Some(function) => function.physical_function,
                None => nic.bdf,
            }
            .and_then(|bdf| facts.device(bdf))
            .and_then(|device| device.config.express.known()?.as_ref())
            .map(|express| express.relaxed_ordering),
        });
    }
    nics.order_by_key(|rdma_device| crate::model::RdmaDevice::natural(&rdma_device.name));
    nics
}

/// The kernel driver of a function.
fn function_driver(facts: &Facts, bdf: Option<Bdf>) -> Option<String> {
    let attributes = facts.device(bdf?)?.attributes.as_ref()?;
    attributes.driver.known()?.clone()
}

/// A function and the bridges above it.
fn functions(facts: &Facts, bdf: Option<Bdf>) -> Vec<String> {
    let device = bdf.and_then(|bdf| facts.device(bdf));
    let place = device.and_then(|device| device.place.known());
    let bridges = place.into_iter().flat_map(|place| &place.bridges);
    bdf.iter().chain(bridges).map(Bdf::to_string).collect()
}

fn nic_path(topology: &Topology<'_>, (gpu, bdf): (usize, Bdf), nic: usize) -> NicPath {
    let expected = topology.rdma_path(gpu, nic).known().copied();
    let class = topology.class(gpu, nic);
    let is_pci = !matches!(expected, Some(RdmaPath::C2c | RdmaPath::DataDirect));
    NicPath {
        gpu: bdf,
        class: class.map(|class| class.letters().to_owned()),
        pci: rate(topology, gpu, nic).filter(|_| is_pci),
        expected,
    }
}

/// Number and bandwidth of an active port.
fn port(port: &RdmaPort) -> Option<(u8, Option<u64>)> {
    // As in `4: ACTIVE`, or `ACTIVE`.
    let is_up = port.state.known().is_some_and(|state| state.ends_with("ACTIVE"));
    let number = u8::try_from(port.number).ok().filter(|_| is_up)?;
    Some((number, port.rate.known().and_then(|rate| bytes_per_second(rate))))
}

/// Parses a rate as in `400 Gb/sec (4X NDR)`.
fn bytes_per_second(rate: &str) -> Option<u64> {
    let (number, unit) = rate.split_once(' ')?;
    let gigabits: f64 = number.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)?;
    unit.starts_with("Gb/sec").then_some((gigabits * 1e9 / 8.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit as _, NIC, NIC_PORT, bdf, machine};

    #[test]
    fn a_virtual_function_relaxes_as_its_physical_function_does() {
        let found = |facts: &Facts| {
            let nics = nics(facts, &topo::topology(facts));
            (nics[0].virtual_function, nics[0].relaxed_ordering)
        };
        let mut facts = machine();
        // Reserved in a virtual function.
        if let Fact::Known(Some(express)) = &mut facts.device_mut(NIC).config.express {
            express.relaxed_ordering = false;
        }
        assert_eq!(found(&facts), (None, Some(false)));
        for (physical, relaxes) in [(NIC_PORT, Some(true)), ("0000:7f:00.0", None)] {
            facts.nic_mut().physical_function = Fact::Known(Some(bdf(physical)));
            let (function, relaxed) = found(&facts);
            let function = function.expect("a virtual function");
            assert_eq!(function.physical_function, Some(bdf(physical)));
            assert_eq!(relaxed, relaxes, "{physical}");
        }
    }

    #[test]
    fn a_nic_has_the_functions_of_its_path() {
        let facts = machine();
        let nics = nics(&facts, &topo::topology(&facts));
        assert_eq!(
            nics[0].functions,
            ["0000:04:00.0", "0000:00:01.0", "0000:01:00.0", "0000:02:01.0"]
        );
        assert!(functions(&facts, None).is_empty());
    }

    #[test]
    fn a_port_of_the_card_without_an_rdma_device_may_be_bonded() {
        let bonded = |facts: &Facts| nics(facts, &topo::topology(facts))[0].bonded;
        let mut facts = machine();
        assert_eq!(bonded(&facts), 1);
        let mut sibling = facts.device_mut(NIC).clone();
        sibling.bdf = bdf("0000:04:00.1");
        facts.add(sibling);
        assert_eq!(bonded(&facts), 2);
        if let Fact::Known(ports) = &mut facts.nic_mut().ports {
            ports[0].link_layer = Fact::Known("Ethernet".to_owned());
            ports[0].rate = Fact::Known("100 Gb/sec (4X EDR)".to_owned());
        }
        let nic = facts.rdma.known().and_then(|all| all.first()).expect("a NIC");
        let port = nic.main_port().expect("a port");
        assert_eq!(facts.bond(nic, port), Some((2, 200.0)));
        // A virtual function is not a port.
        facts.attributes_mut("0000:04:00.1").physical_function = Fact::Known(Some(bdf(NIC)));
        assert_eq!(bonded(&facts), 1);
        // Neither is a port that another driver holds.
        facts.attributes_mut("0000:04:00.1").physical_function = Fact::Known(None);
        facts.attributes_mut("0000:04:00.1").driver = Fact::Known(Some("vfio-pci".to_owned()));
        assert_eq!(bonded(&facts), 1);
    }

    #[test]
    fn converts_rates_to_bytes_per_second() {
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
