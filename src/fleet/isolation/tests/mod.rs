//! The rule on simulated fleets of 16 to 256 nodes, with and without one planted fault, and on small ones by hand.

// The long test prints its figures, for the book.
#![allow(clippy::print_stdout)]

mod links;

use links::{Links, Planted, Random};

use super::{Entity, Fault, Measurement, Network, Nic, Symptom, isolate};
use crate::fleet::schedule::Phase;

/// A fault of each kind at a random place. A slow part keeps this share of its speed.
fn planted(kind: usize, links: &Links, random: &mut Random) -> Planted {
    let nic = Nic { node: random.below(links.nodes), rail: random.below(links.rails) };
    let share = random.between(0.1, 0.7);
    match kind {
        0 => Planted::Sending(nic, share),
        1 => Planted::Receiving(nic, share),
        2 => Planted::SlowNic(nic, share),
        3 => Planted::DeadNic(nic),
        4 => Planted::Lossy(nic, random.between(0.5, 1.0)),
        5 => Planted::SlowNode(nic.node, share),
        6 => Planted::SlowRail(nic.rail, share),
        7 => Planted::SlowLeaf(nic.node / links.per_leaf, share),
        8 => Planted::SlowUplinks(nic.node / links.per_leaf, share),
        _ => Planted::LateNode(nic.node, random.between(1.6, 4.0)),
    }
}

const KINDS: usize = 10;

fn entity(planted: Planted) -> Option<Entity> {
    Some(match planted {
        Planted::None => return None,
        Planted::Sending(nic, _) => Entity::Sending(nic),
        Planted::Receiving(nic, _) => Entity::Receiving(nic),
        Planted::SlowNic(nic, _) | Planted::DeadNic(nic) | Planted::Lossy(nic, _) => {
            Entity::Nic(nic)
        }
        Planted::SlowNode(node, _) | Planted::LateNode(node, _) => Entity::Node(node),
        Planted::SlowRail(rail, _) => Entity::Rail(rail),
        Planted::SlowLeaf(leaf, _) => Entity::Leaf(leaf),
        Planted::SlowUplinks(leaf, _) => Entity::Uplinks(leaf),
    })
}

#[derive(Debug, Default)]
struct Tally {
    planted: usize,
    named: usize,
    /// Fleets in which a healthy part is named.
    false_alarms: usize,
    fleets: usize,
    missed: Vec<String>,
}

impl Tally {
    fn fleet(&mut self, links: &Links, quick: bool, seed: u64) {
        let mut random = Random::new(seed);
        let (measured, _) = links.measure(quick, &mut random);
        let found = isolate(&links.network(), &measured);
        self.fleets += 1;
        let right = entity(links.planted);
        let is_right = |fault: &Fault| Some(fault.entity) == right;
        self.planted += usize::from(right.is_some());
        self.named += usize::from(found.iter().any(is_right));
        self.false_alarms += usize::from(!found.iter().all(is_right));
        if found.iter().map(|fault| Some(fault.entity)).ne(right.map(Some)) {
            let nodes = links.nodes;
            self.missed.push(format!("{nodes} {quick} {seed} {:?}: {found:?}", links.planted));
        }
    }

    fn check(&self) {
        let shown = &self.missed[..self.missed.len().min(20)];
        println!(
            "{} of {} named, {} of {} with a false name",
            self.named, self.planted, self.false_alarms, self.fleets
        );
        assert!(self.named * 100 >= self.planted * 95, "{shown:#?}");
        assert!(self.false_alarms * 100 <= self.fleets, "{shown:#?}");
    }
}

fn sweep(fleets: &[(usize, usize, bool, u64)]) {
    let mut tally = Tally::default();
    for (nodes, rails, quick, seeds) in fleets {
        for seed in 0..*seeds {
            for kind in 0..=KINDS {
                let mut links = Links {
                    nodes: *nodes,
                    rails: *rails,
                    per_leaf: nodes / 4,
                    planted: Planted::None,
                    noise: 0.05,
                };
                let seed = seed * 1000 + *nodes as u64 * 1_000_000 + kind as u64;
                if kind < KINDS {
                    links.planted = planted(kind, &links, &mut Random::new(seed));
                }
                tally.fleet(&links, *quick, seed);
            }
        }
    }
    tally.check();
}

#[test]
fn planted_faults_are_named() {
    sweep(&[
        (16, 4, false, 12),
        (16, 4, true, 20),
        (32, 4, true, 12),
        (64, 4, true, 6),
        (64, 2, false, 1),
        (256, 4, true, 1),
    ]);
}

#[test]
#[ignore = "minutes in a debug build: cargo test --release --lib fleet::isolation -- --ignored --nocapture"]
fn manual_planted_faults_are_named_long() {
    for (nodes, quick, seeds) in [
        (16, false, 300),
        (16, true, 300),
        (32, false, 100),
        (32, true, 200),
        (64, false, 40),
        (64, true, 200),
        (128, false, 10),
        (128, true, 100),
        (256, false, 4),
        (256, true, 50),
    ] {
        print!("{nodes} nodes, 8 rails, quick {quick}: ");
        sweep(&[(nodes, 8, quick, seeds)]);
    }
}

/// No fault is named without one, whatever the noise.
#[test]
fn healthy_fleets_have_no_fault() {
    let mut named = 0;
    for seed in 0..150 {
        let links = Links {
            nodes: 16,
            rails: 4,
            per_leaf: 4,
            planted: Planted::None,
            noise: [0.01, 0.05, 0.1][seed as usize % 3],
        };
        let (measured, _) = links.measure(seed % 2 == 0, &mut Random::new(seed + 77));
        named += usize::from(!isolate(&links.network(), &measured).is_empty());
    }
    assert!(named <= 1, "{named} of 150");
}

/// A few nodes with one NIC each: a dead NIC is named, and nothing else. Four nodes are the fewest of which each has three partners.
#[test]
fn small_fleets_name_the_dead_nic_alone() {
    let (mut wrong, mut missed, mut fleets) = (Vec::new(), Vec::new(), 0);
    for seed in 0..60 {
        for nodes in 4..9 {
            for (noise, quick) in [(0.05, true), (0.05, false), (0.15, true), (0.15, false)] {
                let mut random = Random::new(seed * 100 + nodes as u64);
                let nic = Nic { node: random.below(nodes), rail: 0 };
                for planted in [Planted::None, Planted::DeadNic(nic)] {
                    let links = Links { nodes, rails: 1, per_leaf: nodes, planted, noise };
                    let (measured, _) = links.measure(quick, &mut random);
                    let mut network = links.network();
                    network.leaves.clear();
                    let found = isolate(&network, &measured);
                    let right = entity(planted);
                    let case = format!("{seed} {nodes} {noise} {quick} {planted:?}: {found:?}");
                    let is_right = |fault: &Fault| Some(fault.entity) == right;
                    fleets += 1;
                    if !found.iter().all(is_right) {
                        wrong.push(case);
                    } else if right.is_some() && found.is_empty() {
                        missed.push(case);
                    }
                }
            }
        }
    }
    println!("{} wrong, {} missed of {fleets}", wrong.len(), missed.len());
    assert!(wrong.len() * 100 <= fleets, "{wrong:#?}");
    assert!(missed.len() * 100 <= fleets, "{missed:#?}");
}

/// Five nodes with one NIC each, one of which is dead, measured on a machine whose CPU was busy with other work. What few measurements have
/// in common is not a fault of the rail that all of them share.
#[test]
fn noise_is_no_fault_of_the_only_rail() {
    let network = Network { nodes: 5, rails: 1, leaves: Vec::new() };
    let mut measured = Vec::new();
    for (client, server, there, back) in [
        (0, 1, 0.11, 0.62),
        (0, 3, 0.38, 0.06),
        (0, 4, 0.05, 0.05),
        (1, 3, 0.48, 0.11),
        (1, 4, 0.07, 0.32),
        (3, 4, 0.14, 0.06),
    ] {
        measured.push(measurement((client, 0), (server, 0), there, back));
    }
    for other in [0, 1, 3, 4] {
        let mut dead = measurement((2, 0), (other, 0), 0.0, 0.0);
        (dead.failed, dead.there, dead.back, dead.latency) = (true, None, None, None);
        measured.push(dead);
    }
    let found = isolate(&network, &measured);
    let [fault] = found.as_slice() else { panic!("{found:#?}") };
    let nic = Nic { node: 2, rail: 0 };
    assert_eq!((fault.entity, &fault.symptoms[..]), (Entity::Nic(nic), &[Symptom::Dead][..]));
    // A rail of which all is dead is at fault.
    for measurement in &mut measured {
        (measurement.failed, measurement.there, measurement.back) = (true, None, None);
    }
    assert_eq!(isolate(&network, &measured)[0].entity, Entity::Rail(0));
}

/// The time of a probe: a round takes as long as its slowest NIC, whatever the number of nodes.
#[test]
fn time_grows_with_the_rounds() {
    let time = |nodes: usize, quick| {
        let links =
            Links { nodes, rails: 2, per_leaf: nodes / 4, planted: Planted::None, noise: 0.05 };
        links.measure(quick, &mut Random::new(1)).1
    };
    for nodes in [16, 32, 64, 128] {
        let (one, two) = (time(nodes, false), time(2 * nodes, false));
        // N - 1 rounds: twice the nodes are twice the time, not four times.
        assert!(two < one * 21 / 10, "{nodes}: {one} and {two}");
        let (one, two) = (time(nodes, true), time(2 * nodes, true));
        // Log N rounds: one more.
        assert_eq!(two, one + 2, "{nodes}");
    }
}

fn measurement(
    client: (usize, usize),
    server: (usize, usize),
    there: f64,
    back: f64,
) -> Measurement {
    let nic = |(node, rail)| Nic { node, rail };
    Measurement {
        phase: if client.1 == server.1 { Phase::Alone } else { Phase::Crossed },
        client: nic(client),
        server: nic(server),
        there: Some(there),
        back: Some(back),
        latency: Some(2.0),
        lost: 0,
        failed: false,
    }
}

/// Two nodes with three NICs: only crossed rails tell the ends of a slow direction apart.
#[test]
fn crossed_rails_tell_two_nodes_apart() {
    let network = Network { nodes: 2, rails: 3, leaves: Vec::new() };
    let slow = |from: (usize, usize)| if from == (0, 1) { 1.0 } else { 10.0 };
    let pair = |rail: usize, shift: usize| {
        let (client, server) = ((0, rail), (1, (rail + shift) % 3));
        measurement(client, server, slow(client), slow(server))
    };
    let mut measured: Vec<Measurement> = (0..3).map(|rail| pair(rail, 0)).collect();
    let ends =
        [Entity::Sending(Nic { node: 0, rail: 1 }), Entity::Receiving(Nic { node: 1, rail: 1 })];
    // One slow measurement says little; one that failed says that an end is dead, and not which.
    assert_eq!(isolate(&network, &measured), []);
    let mut dead = measured.clone();
    (dead[1].failed, dead[1].there, dead[1].back) = (true, None, None);
    for fault in isolate(&network, &dead) {
        let named = [&[fault.entity], &fault.same[..]].concat();
        assert!(named.contains(&Entity::Nic(Nic { node: 0, rail: 1 })), "{fault:?}");
        assert!(named.contains(&Entity::Nic(Nic { node: 1, rail: 1 })), "{fault:?}");
        assert!(fault.confidence < 0.51, "{fault:?}");
    }
    measured.extend((0..3).flat_map(|rail| [pair(rail, 1), pair(rail, 2)]));
    let found = isolate(&network, &measured);
    let [fault] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((fault.entity, fault.same.as_slice()), (ends[0], &[][..]));
    assert_eq!(fault.symptoms, [Symptom::Bandwidth]);
    assert!(fault.confidence > 0.9 && fault.ratio.is_some_and(|ratio| ratio < 0.2));
}

/// A dead NIC beside a slow one, and a leaf switch that is a rail.
#[test]
fn several_faults_and_equal_parts() {
    let leaf = |rail| (0..8).map(|node| Nic { node, rail }).collect();
    let network = Network { nodes: 8, rails: 2, leaves: vec![leaf(0), leaf(1)] };
    let mut measured = Vec::new();
    for one in 0..8 {
        for other in one + 1..8 {
            for rail in 0..2 {
                let mut pair = measurement((one, rail), (other, rail), 10.0, 9.0);
                if rail == 1 && (one == 3 || other == 3) {
                    (pair.failed, pair.there, pair.back) = (true, None, None);
                }
                if rail == 0 && one == 5 {
                    pair.there = Some(4.0);
                }
                if rail == 0 && other == 5 {
                    pair.back = Some(4.0);
                }
                measured.push(pair);
            }
        }
    }
    let found = isolate(&network, &measured);
    let summary: Vec<_> = found.iter().map(|fault| (fault.entity, fault.symptoms[0])).collect();
    let nic = |node, rail| Nic { node, rail };
    assert_eq!(
        summary,
        [(Entity::Nic(nic(3, 1)), Symptom::Dead), (Entity::Sending(nic(5, 0)), Symptom::Bandwidth)]
    );
    // A whole rail is slow; its leaf switch has the same NICs.
    for pair in &mut measured {
        let share = if pair.client.rail == 1 { 0.5 } else { 1.0 };
        (pair.failed, pair.there, pair.back) = (false, Some(10.0 * share), Some(9.0 * share));
    }
    let found = isolate(&network, &measured);
    let [fault] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((fault.entity, fault.same.as_slice()), (Entity::Rail(1), &[Entity::Leaf(1)][..]));
}

#[test]
fn nothing_is_found_in_nothing() {
    assert_eq!(isolate(&Network::default(), &[]), []);
    let network = Network { nodes: 2, rails: 1, leaves: Vec::new() };
    assert_eq!(isolate(&network, &[measurement((0, 0), (1, 0), 10.0, 10.0)]), []);
    let odd = measurement((0, 0), (1, 0), f64::NAN, 0.0);
    // Values that no measurement has do no harm.
    let _ = isolate(&network, &[odd]);
}
