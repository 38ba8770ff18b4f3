//! Simulated links of a fleet, written apart from the rule that judges them: each transfer passes the sender's port, the switches and
//! the receiver's port, and the slowest of them decides.

use crate::fleet::isolation::{Measurement, Network, Nic};
use crate::fleet::schedule::{Phase, Round, schedule};

/// xorshift64*, with normal deviates by Marsaglia's polar method.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        for _ in 0..8 {
            random.bits();
        }
        random
    }

    fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() >> 33) as usize % limit
    }

    pub fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (self.between(-1.0, 1.0), self.between(-1.0, 1.0));
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }
}

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Planted {
    None,
    /// The cable of a NIC is slow in one direction.
    Sending(Nic, f64),
    Receiving(Nic, f64),
    /// A NIC is slow in both.
    SlowNic(Nic, f64),
    DeadNic(Nic),
    /// A NIC's cable loses packets, which costs this much.
    Lossy(Nic, f64),
    /// All NICs of a node are slow.
    SlowNode(usize, f64),
    SlowRail(usize, f64),
    SlowLeaf(usize, f64),
    /// Transfers through a leaf's uplinks are slow.
    SlowUplinks(usize, f64),
    /// Messages of a node's NICs take longer by this factor.
    LateNode(usize, f64),
}

/// A fleet with equal leaf switches of equally many neighbouring nodes.
pub struct Links {
    pub nodes: usize,
    pub rails: usize,
    pub per_leaf: usize,
    pub planted: Planted,
    /// Standard deviation of the noise. One measurement in twenty has three times as much.
    pub noise: f64,
}

/// GB/s of a port, of reads in place of writes, and through a spine.
const PORT: f64 = 48.0;
const READ: f64 = 0.93;
const SPINE: f64 = 0.97;
/// A port's own lasting deviation.
const OWN: f64 = 0.01;

impl Links {
    pub fn network(&self) -> Network {
        let leaves = (0..self.nodes / self.per_leaf).map(|leaf| {
            let nodes = leaf * self.per_leaf..(leaf + 1) * self.per_leaf;
            nodes.flat_map(|node| (0..self.rails).map(move |rail| Nic { node, rail })).collect()
        });
        Network { nodes: self.nodes, rails: self.rails, leaves: leaves.collect() }
    }

    /// Runs the rounds. The second result is the time that they take, in measurements of one NIC.
    pub fn measure(&self, quick: bool, random: &mut Random) -> (Vec<Measurement>, usize) {
        let ports = self.nodes * self.rails;
        let own: Vec<[f64; 2]> = (0..ports)
            .map(|_| [1.0 + OWN * random.normal(), 1.0 + OWN * random.normal()])
            .collect();
        let mut measured = Vec::new();
        let mut time = 0;
        for round in schedule(self.nodes, self.rails, quick) {
            time += match round.phase {
                Phase::Together => 1,
                Phase::Alone | Phase::Crossed => self.rails,
            };
            self.round(&round, &own, random, &mut measured);
        }
        (measured, time)
    }

    fn round(
        &self,
        round: &Round,
        own: &[[f64; 2]],
        random: &mut Random,
        measured: &mut Vec<Measurement>,
    ) {
        for (one, other) in &round.pairs {
            for rail in 0..self.rails {
                let client = Nic { node: *one, rail };
                let server = Nic { node: *other, rail: (rail + round.shift) % self.rails };
                let port = |nic: Nic| own[nic.node * self.rails + nic.rail];
                let there = self.rate(client, server) * port(client)[0].min(port(server)[1]);
                let back = READ * self.rate(server, client) * port(server)[0].min(port(client)[1]);
                let failed = there <= 0.0 || back <= 0.0;
                let mut noisy = |value: f64| {
                    let wide = if random.below(20) == 0 { 3.0 } else { 1.0 };
                    (!failed).then(|| value * (self.noise * wide * random.normal()).exp())
                };
                measured.push(Measurement {
                    phase: round.phase,
                    client,
                    server,
                    there: noisy(there),
                    back: noisy(back),
                    latency: noisy(self.latency(client, server)),
                    // A healthy link loses a packet now and then.
                    lost: if self.loses(client) || self.loses(server) {
                        1 + random.below(100) as u64
                    } else {
                        u64::from(random.below(500) == 0)
                    },
                    failed,
                });
            }
        }
    }

    fn leaf(&self, nic: Nic) -> usize {
        nic.node / self.per_leaf
    }

    fn rate(&self, from: Nic, to: Nic) -> f64 {
        let is_far = self.leaf(from) != self.leaf(to);
        let spine = if is_far { SPINE } else { 1.0 };
        let at = |hit: bool, share: f64| if hit { share } else { 1.0 };
        let ends =
            |hit: fn(&Nic) -> usize, wanted: usize| hit(&from) == wanted || hit(&to) == wanted;
        let share = match self.planted {
            Planted::None | Planted::LateNode(..) => 1.0,
            Planted::Sending(nic, share) => at(from == nic, share),
            Planted::Receiving(nic, share) => at(to == nic, share),
            Planted::SlowNic(nic, share) | Planted::Lossy(nic, share) => {
                at(from == nic || to == nic, share)
            }
            Planted::DeadNic(nic) => at(from == nic || to == nic, 0.0),
            Planted::SlowNode(node, share) => at(ends(|nic| nic.node, node), share),
            Planted::SlowRail(rail, share) => at(ends(|nic| nic.rail, rail), share),
            Planted::SlowLeaf(leaf, share) => {
                at(self.leaf(from) == leaf || self.leaf(to) == leaf, share)
            }
            Planted::SlowUplinks(leaf, share) => {
                at(is_far && (self.leaf(from) == leaf || self.leaf(to) == leaf), share)
            }
        };
        PORT * spine.min(share)
    }

    fn latency(&self, client: Nic, server: Nic) -> f64 {
        let switches = if self.leaf(client) == self.leaf(server) { 1.0 } else { 3.0 };
        let late = match self.planted {
            Planted::LateNode(node, factor) if client.node == node || server.node == node => factor,
            _ => 1.0,
        };
        (1.8 + 0.15 * switches) * late
    }

    fn loses(&self, nic: Nic) -> bool {
        matches!(self.planted, Planted::Lossy(lossy, _) if lossy == nic)
    }
}
