//! The schedule of a fleet probe: which nodes work together in which round. Each node has one partner a round at most, so the rounds
//! decide how long a probe takes: N - 1 for all pairs of N nodes, O(log N) for a quick probe.

/// What is measured in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// One rail after another: each NIC has its node and its partner to itself.
    Alone,
    /// All rails of all nodes at once.
    Together,
    /// One rail after another, each to another rail of the partner.
    Crossed,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Together => "together",
            Self::Crossed => "crossed",
        }
    }
}

/// One round: all pairs work at the same time, and the next round begins when all have finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    pub phase: Phase,
    /// The rail of the server is that of the client plus this, modulo the number of rails.
    pub shift: usize,
    /// Client and server, as numbers of nodes from 0. No node is in two pairs.
    pub pairs: Vec<(usize, usize)>,
}

/// Chooses the rounds of a quick probe; fixed, so that two runs measure the same pairs.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// Most rounds with crossed rails.
const MAX_CROSSED: usize = 3;
/// A quick probe of a few nodes has all of their rounds.
const FEWEST: usize = 3;

/// The rounds for this many nodes and rails: every pair once with each NIC alone; then all rails at once, between the halves of the
/// fleet and in O(log N) other rounds; then crossed rails. A quick probe has O(log N) rounds of the first kind, and one of each other.
pub fn schedule(nodes: usize, rails: usize, quick: bool) -> Vec<Round> {
    if nodes < 2 || rails == 0 {
        return Vec::new();
    }
    let all = tournament(nodes);
    let few = nodes.next_power_of_two().ilog2() as usize;
    let order = shuffled(all.len());
    let chosen = |count: usize, from: usize| {
        let picked = order.iter().cycle().skip(from).take(count.min(all.len()));
        picked.map(|at| all[*at].clone()).collect::<Vec<_>>()
    };
    let round = |phase, shift, pairs| Round { phase, shift, pairs };
    let alone = if quick { chosen(few.max(FEWEST), 0) } else { all.clone() };
    let mut rounds: Vec<Round> =
        alone.into_iter().map(|pairs| round(Phase::Alone, 0, pairs)).collect();
    if rails > 1 {
        rounds.push(round(Phase::Together, 0, halves(nodes)));
        let more = if quick { 0 } else { few };
        let more = chosen(more, few).into_iter();
        rounds.extend(more.map(|pairs| round(Phase::Together, 0, pairs)));
    }
    let crossed = if quick { 1 } else { MAX_CROSSED };
    for shift in 1..rails.min(crossed + 1) {
        let pairs = chosen(1, 2 * few + shift).concat();
        rounds.push(round(Phase::Crossed, shift, pairs));
    }
    rounds
}

/// Every pair of nodes once: the circle method. One node stays, the others move on by one place a round. With an odd number the
/// partner of the place that stays is nobody.
fn tournament(nodes: usize) -> Vec<Vec<(usize, usize)>> {
    let places = nodes + nodes % 2;
    let circle = places - 1;
    let round = |round: usize| {
        let pair = |step: usize| match step {
            0 => (round, circle),
            _ => ((round + step) % circle, (round + circle - step) % circle),
        };
        // Each node is the client of half of the others.
        let pairs = (0..places / 2).map(pair).map(|(one, other)| {
            let (low, high) = (one.min(other), one.max(other));
            match (high - low) % 2 {
                0 => (high, low),
                _ => (low, high),
            }
        });
        let is_real = |(one, other): &(usize, usize)| one.max(other) < &nodes;
        pairs.filter(is_real).collect()
    };
    (0..circle).map(round).collect()
}

/// Each node of the first half with one of the second.
fn halves(nodes: usize) -> Vec<(usize, usize)> {
    let half = nodes / 2;
    (0..half).map(|node| (node, nodes - half + node)).collect()
}

/// Numbers below `count` in a random order that is always the same.
fn shuffled(count: usize) -> Vec<usize> {
    let mut state = SEED;
    let mut order: Vec<(u64, usize)> = (0..count)
        .map(|at| {
            // splitmix64, https://prng.di.unimi.it/splitmix64.c
            state = state.wrapping_add(SEED);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31), at)
        })
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn of_phase(rounds: &[Round], phase: Phase) -> Vec<&Round> {
        rounds.iter().filter(|round| round.phase == phase).collect()
    }

    #[test]
    fn every_pair_once_and_every_node_once_a_round() {
        for nodes in (2..=70).chain([127, 128, 255, 256]) {
            let rounds = schedule(nodes, 4, false);
            let alone = of_phase(&rounds, Phase::Alone);
            // An odd number needs one more: in each round one node rests.
            assert_eq!(alone.len(), nodes - 1 + nodes % 2, "{nodes}");
            let mut pairs = BTreeSet::new();
            for (one, other) in alone.iter().flat_map(|round| &round.pairs) {
                let pair = (*one.min(other), *one.max(other));
                assert!(pairs.insert(pair), "{nodes}: {pair:?} twice");
            }
            assert_eq!(pairs.len(), nodes * (nodes - 1) / 2);
            for round in &rounds {
                let ends = round.pairs.iter().flat_map(|(one, other)| [*one, *other]);
                let ends: Vec<usize> = ends.collect();
                let distinct: BTreeSet<usize> = ends.iter().copied().collect();
                assert_eq!(distinct.len(), ends.len(), "{nodes}: {round:?}");
                assert_eq!(ends.len(), nodes / 2 * 2, "{nodes}: {round:?}");
                assert!(ends.iter().all(|end| *end < nodes));
            }
        }
    }

    #[test]
    fn nothing_for_one_node() {
        for quick in [false, true] {
            assert_eq!(schedule(0, 4, quick), []);
            assert_eq!(schedule(1, 4, quick), []);
            assert_eq!(schedule(8, 0, quick), []);
        }
        // Two nodes with one rail have one thing to do.
        let only = schedule(2, 1, false);
        assert_eq!((only.len(), only[0].pairs.len()), (1, 1));
    }

    #[test]
    fn quick_rounds_grow_with_the_logarithm() {
        for (nodes, rounds) in [(2, 1), (4, 3), (5, 3), (16, 4), (64, 6), (256, 8), (1000, 10)] {
            let quick = schedule(nodes, 8, true);
            let alone = of_phase(&quick, Phase::Alone);
            assert_eq!(alone.len(), rounds, "{nodes}");
            assert_eq!(quick.len(), rounds + 2, "{nodes}");
            let pairs: Vec<_> = alone.iter().flat_map(|round| &round.pairs).collect();
            let distinct: BTreeSet<_> =
                pairs.iter().map(|(one, other)| (one.min(other), one.max(other))).collect();
            assert_eq!(distinct.len(), pairs.len(), "{nodes}");
        }
    }

    #[test]
    fn nodes_are_clients_and_servers() {
        let rounds = schedule(16, 1, false);
        let mut clients: BTreeMap<usize, usize> = BTreeMap::new();
        for (client, _) in rounds.iter().flat_map(|round| &round.pairs) {
            *clients.entry(*client).or_default() += 1;
        }
        assert_eq!(clients.len(), 16);
        assert!(clients.values().all(|times| (3..=12).contains(times)));
    }

    #[test]
    fn halves_and_crossed_rails() {
        let rounds = schedule(9, 4, false);
        let together = of_phase(&rounds, Phase::Together);
        assert_eq!(together[0].pairs, [(0, 5), (1, 6), (2, 7), (3, 8)]);
        assert_eq!(together.len(), 5);
        let shifts = |rails| -> Vec<usize> {
            let rounds = schedule(9, rails, false);
            let crossed = of_phase(&rounds, Phase::Crossed);
            crossed.iter().map(|round| round.shift).collect()
        };
        assert_eq!(shifts(1), [0; 0]);
        assert_eq!(shifts(2), [1]);
        assert_eq!(shifts(8), [1, 2, 3]);
    }
}
