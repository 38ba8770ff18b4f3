//! Measurements between nodes in a fleet's report: the parts at fault, the slowest links, and a heat map of the nodes.

use std::collections::{BTreeMap, HashMap};

use super::heat::share_map;
use super::isolation::{Entity, Fault, Measurement, Nic, Symptom, isolate, median};
use super::topology::Leaves;
use super::{fold, isolation, natural};
use crate::model::{FaultKind, FleetFault, FleetFinding, FleetLink, FleetNetwork, HeatMap};

/// Most links of the list of the slowest.
const WORST: usize = 10;
/// Most nodes of a fault that are looked at for a reason.
const MAX_FAULTS: usize = 32;

/// What was measured between the nodes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Links {
    pub nodes: Vec<String>,
    /// The NICs of each node, in the order of the rails.
    pub nics: Vec<Vec<String>>,
    pub leaves: Leaves,
    pub measurements: Vec<Measurement>,
    /// Why a measurement failed, by its number.
    pub reasons: BTreeMap<usize, String>,
    pub rounds: usize,
    pub quick: bool,
    pub seconds: f64,
}

impl Links {
    fn network(&self) -> isolation::Network {
        let leaves = self.leaves.iter().map(|(_, nics)| nics.clone());
        isolation::Network {
            nodes: self.nodes.len(),
            rails: self.nics.iter().map(Vec::len).max().unwrap_or(0),
            leaves: leaves.collect(),
        }
    }

    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = isolate(&self.network(), &self.measurements);
        faults.truncate(MAX_FAULTS);
        faults
    }

    /// The nodes that a fault is about: those of a NIC, of a leaf switch or of a rail.
    pub fn nodes_of(&self, entity: Entity) -> Vec<usize> {
        let mut nodes: Vec<usize> = match entity {
            Entity::Sending(nic) | Entity::Receiving(nic) | Entity::Nic(nic) => vec![nic.node],
            Entity::Node(node) => vec![node],
            Entity::Rail(rail) => {
                (0..self.nodes.len()).filter(|node| self.nics[*node].len() > rail).collect()
            }
            Entity::Leaf(leaf) | Entity::Uplinks(leaf) => {
                let nics = self.leaves.get(leaf).map(|(_, nics)| nics.as_slice());
                nics.unwrap_or_default().iter().map(|nic| nic.node).collect()
            }
        };
        nodes.dedup();
        nodes
    }

    fn nic(&self, nic: Nic) -> String {
        let device = self.nics.get(nic.node).and_then(|nics| nics.get(nic.rail));
        let node = self.nodes.get(nic.node).map_or("", String::as_str);
        format!("{node} {}", device.map_or("", String::as_str))
    }

    fn name(&self, entity: Entity) -> String {
        let leaf = |leaf: usize| self.leaves.get(leaf).map_or("", |(name, _)| name);
        match entity {
            Entity::Sending(nic) => format!("{}, sending", self.nic(nic)),
            Entity::Receiving(nic) => format!("{}, receiving", self.nic(nic)),
            Entity::Nic(nic) => self.nic(nic),
            Entity::Node(node) => self.nodes[node].clone(),
            Entity::Rail(rail) => format!("rail {rail}"),
            Entity::Leaf(at) => format!("leaf switch {}", leaf(at)),
            Entity::Uplinks(at) => format!("uplinks of leaf switch {}", leaf(at)),
        }
    }

    /// The section of the report, and the findings of its faults. Reasons are left out of a masked one.
    pub fn section(&self, faults: &[Fault], mask: bool) -> (FleetNetwork, Vec<FleetFinding>) {
        let section = FleetNetwork {
            rounds: self.rounds,
            quick: self.quick,
            seconds: self.seconds,
            pairs: self.measurements.len(),
            failed: self.measurements.iter().filter(|measured| measured.failed).count(),
            unexplained: self.unexplained(faults).count(),
            faults: faults.iter().map(|fault| self.fault(fault, mask)).collect(),
        };
        let counts = faults.iter().map(|fault| self.nodes_of(fault.entity).len());
        let findings = section.faults.iter().zip(counts);
        let findings = findings.map(|(fault, count)| finding(fault, count));
        let alone = self.unexplained(faults).take(WORST);
        let alone = alone.map(|at| self.failure(at, mask));
        let findings = findings.chain(alone).collect();
        (section, findings)
    }

    fn fault(&self, fault: &Fault, mask: bool) -> FleetFault {
        FleetFault {
            kind: kind(fault.entity),
            subject: self.name(fault.entity),
            nodes: fold(self.nodes_of(fault.entity).iter().map(|at| self.nodes[*at].as_str())),
            symptoms: fault.symptoms.iter().map(|symptom| word(*symptom).to_owned()).collect(),
            ratio: fault.ratio,
            measurements: fault.measurements,
            confidence: fault.confidence,
            same: fault.same.iter().map(|same| self.name(*same)).collect(),
            reason: self.reason(fault).filter(|_| !mask),
        }
    }

    /// The finding of one fault.
    pub fn finding(&self, fault: &Fault, mask: bool) -> FleetFinding {
        finding(&self.fault(fault, mask), self.nodes_of(fault.entity).len())
    }

    /// The failed measurements that no fault explains.
    fn unexplained(&self, faults: &[Fault]) -> impl Iterator<Item = usize> {
        let takes_part = |entity: Entity, nic: Nic| match entity {
            Entity::Sending(own) | Entity::Receiving(own) | Entity::Nic(own) => own == nic,
            Entity::Node(node) => node == nic.node,
            Entity::Rail(rail) => rail == nic.rail,
            Entity::Leaf(leaf) | Entity::Uplinks(leaf) => {
                let nics = self.leaves.get(leaf).map(|(_, nics)| nics.as_slice());
                nics.unwrap_or_default().contains(&nic)
            }
        };
        let measurements = self.measurements.iter().enumerate();
        measurements
            .filter(move |(_, measured)| {
                let mut ends = [measured.client, measured.server].into_iter();
                let is_explained =
                    ends.any(|nic| faults.iter().any(|fault| takes_part(fault.entity, nic)));
                measured.failed && !is_explained
            })
            .map(|(at, _)| at)
    }

    /// The finding of a failed measurement.
    fn failure(&self, at: usize, mask: bool) -> FleetFinding {
        let Measurement { client, server, .. } = self.measurements[at];
        let reason = self.reasons.get(&at).filter(|_| !mask);
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        FleetFinding {
            id: "fleet.link".to_owned(),
            outcome: "fail".to_owned(),
            subject: format!("{} to {}", self.nic(client), self.nic(server)),
            message: format!("a measurement between them failed, and no part explains it{reason}"),
            count: 2,
            nodes: fold([client, server].map(|nic| self.nodes[nic.node].as_str())),
        }
    }

    /// The most frequent reason of failed measurements of a fault.
    fn reason(&self, fault: &Fault) -> Option<String> {
        if fault.symptoms.first() != Some(&Symptom::Dead) {
            return None;
        }
        let nodes = self.nodes_of(fault.entity);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for (at, reason) in &self.reasons {
            let measured = &self.measurements[*at];
            if nodes.contains(&measured.client.node) || nodes.contains(&measured.server.node) {
                *counts.entry(reason).or_default() += 1;
            }
        }
        let most = counts.into_iter().max_by_key(|(reason, count)| (*count, *reason));
        most.map(|(reason, _)| reason.to_owned())
    }

    /// Every measured direction, as a share of the median of its phase and direction.
    fn shares(&self) -> Vec<(Nic, Nic, FleetLink)> {
        let mut by_group: BTreeMap<(usize, bool), Vec<f64>> = BTreeMap::new();
        let directions = |measured: &Measurement| {
            let Measurement { client, server, .. } = *measured;
            let value = |value: Option<f64>| value.or(measured.failed.then_some(0.0));
            [
                (client, server, false, value(measured.there)),
                (server, client, true, value(measured.back)),
            ]
        };
        for measured in self.measurements.iter().filter(|measured| !measured.failed) {
            for (_, _, back, value) in directions(measured) {
                let group = by_group.entry((measured.phase as usize, back)).or_default();
                group.extend(value);
            }
        }
        let usual: BTreeMap<(usize, bool), f64> = by_group
            .into_iter()
            .filter_map(|(group, mut values)| Some((group, median(&mut values)?)))
            .collect();
        let mut all = Vec::new();
        for measured in &self.measurements {
            for (from, to, back, value) in directions(measured) {
                let usual = usual.get(&(measured.phase as usize, back)).copied();
                let (Some(value), Some(usual)) = (value, usual.filter(|usual| *usual > 0.0)) else {
                    continue;
                };
                let operation = if back { "read" } else { "write" };
                let link = FleetLink {
                    node: self.nodes[from.node].clone(),
                    from: self.nics[from.node][from.rail].clone(),
                    to: self.nic(to),
                    name: format!("rdma.{operation}.bandwidth, {}", measured.phase.name()),
                    value,
                    median: usual,
                    share: value / usual,
                };
                all.push((from, to, link));
            }
        }
        all
    }

    /// The slowest links, and the worst share of each pair of nodes.
    pub fn links(&self) -> (Vec<FleetLink>, Option<HeatMap>) {
        let mut shares = self.shares();
        let node = |nic: &Nic| self.nodes[nic.node].as_str();
        let pairs = shares.iter().map(|(from, to, link)| (node(from), node(to), link.share));
        let heat = share_map(&pairs.collect::<Vec<_>>());
        shares.sort_by(|(_, _, a), (_, _, b)| {
            let names = || natural(&a.node).cmp(&natural(&b.node));
            a.share.total_cmp(&b.share).then_with(names)
        });
        let worst = shares.into_iter().take(WORST).map(|(_, _, link)| link);
        (worst.collect(), heat)
    }
}

/// The finding of a fault on so many nodes.
fn finding(fault: &FleetFault, count: usize) -> FleetFinding {
    FleetFinding {
        id: format!("fleet.{}", fault.kind.name()),
        outcome: "fail".to_owned(),
        subject: fault.subject.clone(),
        message: message(fault),
        count,
        nodes: fault.nodes.clone(),
    }
}

fn message(fault: &FleetFault) -> String {
    let words = fault.symptoms.iter().map(|symptom| match (symptom.as_str(), fault.ratio) {
        ("bandwidth", Some(ratio)) => format!("{:.0} % of the usual bandwidth", ratio * 100.0),
        ("latency", Some(ratio)) if fault.symptoms[0] == "latency" => {
            format!("{ratio:.1} times the usual latency")
        }
        ("latency", _) => "late".to_owned(),
        ("loss", _) => "packets are lost".to_owned(),
        _ => "nothing gets through".to_owned(),
    });
    let mut text = words.collect::<Vec<_>>().join(", ");
    if let Some(reason) = &fault.reason {
        text.push_str(&format!(" ({reason})"));
    }
    // Whatever the numbers say, the rule assumes something about the noise.
    let percent = (fault.confidence * 100.0).min(99.9);
    let plural = if fault.measurements == 1 { "" } else { "s" };
    text.push_str(&format!(
        ": {} measurement{plural}, confidence {percent:.1} %",
        fault.measurements
    ));
    if !fault.same.is_empty() {
        text.push_str(&format!("; these have the same measurements: {}", fault.same.join("; ")));
    }
    text
}

fn kind(entity: Entity) -> FaultKind {
    match entity {
        Entity::Sending(_) => FaultKind::Sending,
        Entity::Receiving(_) => FaultKind::Receiving,
        Entity::Nic(_) => FaultKind::Nic,
        Entity::Node(_) => FaultKind::Node,
        Entity::Rail(_) => FaultKind::Rail,
        Entity::Leaf(_) => FaultKind::Leaf,
        Entity::Uplinks(_) => FaultKind::Uplinks,
    }
}

fn word(symptom: Symptom) -> &'static str {
    match symptom {
        Symptom::Dead => "dead",
        Symptom::Bandwidth => "bandwidth",
        Symptom::Latency => "latency",
        Symptom::Loss => "loss",
    }
}
