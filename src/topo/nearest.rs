//! Finds near partners without checking every pair: by PCI function and NUMA node, by the bridges above, by host bridge.
//!
//! Each level contains all partners of its distance, and perhaps nearer ones; the class decides.

use std::collections::BTreeMap;

use super::Topology;
use super::classify::End;
use crate::model::Order as _;
use crate::model::{Bdf, Fact, Kind, RootBus};

pub struct Partners<'t> {
    topology: &'t Topology<'t>,
    by_function: BTreeMap<Bdf, Vec<usize>>,
    /// Those with a known NUMA node, and the coherent GPUs among them.
    by_node: BTreeMap<u32, Vec<usize>>,
    coherent: BTreeMap<u32, Vec<usize>>,
    /// By the bridges above.
    below: BTreeMap<Chain<'t>, Vec<usize>>,
    /// By the bridges above the parent bridge.
    below_a_child: BTreeMap<Chain<'t>, Vec<usize>>,
    /// By the bridge next to the root bus.
    below_the_root: BTreeMap<(RootBus, Bdf), Vec<usize>>,
    /// Those with a known root bus.
    rooted: BTreeMap<RootBus, Vec<usize>>,
    /// By PCI domain, and whether the root bus is known.
    by_domain: BTreeMap<(u32, bool), Vec<usize>>,
    by_known_node: BTreeMap<Option<u32>, Vec<usize>>,
    all: Vec<usize>,
    /// No row is of the kind, not even one without a place.
    pub are_absent: bool,
}

/// A root bus and the bridges below it, outermost first.
type Chain<'t> = (RootBus, &'t [Bdf]);

impl<'t> Partners<'t> {
    /// Indexes the rows of a kind. Active ports come first, because a level may be searched only partly.
    pub fn new(topology: &'t Topology<'t>, kind: Kind) -> Self {
        let mut partners = Self {
            topology,
            by_function: BTreeMap::new(),
            by_node: BTreeMap::new(),
            coherent: BTreeMap::new(),
            below: BTreeMap::new(),
            below_a_child: BTreeMap::new(),
            below_the_root: BTreeMap::new(),
            rooted: BTreeMap::new(),
            by_domain: BTreeMap::new(),
            by_known_node: BTreeMap::new(),
            all: Vec::new(),
            are_absent: true,
        };
        let mut rows: Vec<usize> = topology.rows_of(kind).map(|(at, _)| at).collect();
        partners.are_absent = rows.is_empty();
        rows.order_by_key(|at| topology.rows.get(*at).map(|row| row.active == Some(false)));
        for row in rows {
            partners.add(row);
        }
        partners
    }

    fn add(&mut self, row: usize) {
        let (Some(end), Some(device)) = (self.topology.end(row), self.topology.rows.get(row))
        else {
            return;
        };
        let (Fact::Known(place), false) = (&end.place, device.software) else {
            return;
        };
        if let Some(bdf) = end.bdf {
            self.by_function.entry(bdf).or_default().push(row);
        }
        if let Fact::Known(Some(node)) = end.numa {
            self.by_node.entry(node).or_default().push(row);
            if device.coherent {
                self.coherent.entry(node).or_default().push(row);
            }
        }
        let bridges = place.bridges.as_slice();
        self.below.entry((place.root, bridges)).or_default().push(row);
        if let Some((_, above)) = bridges.split_last() {
            self.below_a_child.entry((place.root, above)).or_default().push(row);
        }
        if let Some(first) = bridges.first() {
            self.below_the_root.entry((place.root, *first)).or_default().push(row);
        }
        if place.rooted {
            self.rooted.entry(place.root).or_default().push(row);
        }
        self.by_domain.entry((place.root.domain, place.rooted)).or_default().push(row);
        self.all.push(row);
        if let Fact::Known(node) = end.numa {
            self.by_known_node.entry(node).or_default().push(row);
        }
    }

    /// Partners in the row's PCI domain whose class may be unknown because the source omits bridges.
    pub fn unplaced(&self, row: usize) -> impl Iterator<Item = usize> {
        let place = self.topology.end(row).and_then(|end| end.place.known());
        let found = place.into_iter().flat_map(|place| {
            let rooted: &[bool] = if place.rooted { &[false] } else { &[false, true] };
            rooted.iter().filter_map(|rooted| self.by_domain.get(&(place.root.domain, *rooted)))
        });
        found.flatten().copied()
    }

    /// A row's partners by level, nearest first.
    pub fn levels(&self, row: usize) -> impl Iterator<Item = Vec<&[usize]>> {
        let end = self.topology.end(row);
        let coherent = self.topology.rows.get(row).is_some_and(|row| row.coherent);
        (0..5).map(move |level| match end {
            Some(end) => self.level(level, end, coherent),
            None => Vec::new(),
        })
    }

    fn level(&self, level: usize, end: &End<'t>, coherent: bool) -> Vec<&[usize]> {
        let &Fact::Known(place) = &end.place else {
            return Vec::new();
        };
        let bridges = place.bridges.as_slice();
        match level {
            0 => {
                // The same function; at most one bridge between.
                let mut found = vec![end.bdf.and_then(|bdf| self.by_function.get(&bdf))];
                for chain in (1..=bridges.len()).rev().take(2) {
                    let chain = (place.root, &bridges[..chain]);
                    found.extend([self.below.get(&chain), self.below_a_child.get(&chain)]);
                }
                found.into_iter().flatten().map(Vec::as_slice).collect()
            }
            1 => {
                let first = bridges.first().map(|first| (place.root, *first));
                let found = first.and_then(|first| self.below_the_root.get(&first));
                found.into_iter().map(Vec::as_slice).collect()
            }
            2 => {
                // One root bus; a coherent GPU and the NICs of its socket.
                let mut found = vec![self.rooted.get(&place.root)];
                if let Fact::Known(Some(node)) = end.numa {
                    let by_socket = if coherent { &self.by_node } else { &self.coherent };
                    found.push(by_socket.get(&node));
                }
                found.into_iter().flatten().map(Vec::as_slice).collect()
            }
            3 if self.has_one_node() => vec![self.all.as_slice()],
            3 => {
                let found = end.numa.known().and_then(|node| self.by_known_node.get(node));
                found.into_iter().map(Vec::as_slice).collect()
            }
            // NCCL names no root buses: NUMA nodes decide.
            _ if self.topology.facts.nccl.is_some() => vec![self.all.as_slice()],
            _ => {
                // All below other host bridges, also where the NUMA nodes are unknown.
                let domain = place.root.domain;
                let others = self
                    .by_domain
                    .iter()
                    .filter(|((other, rooted), _)| *other != domain || (*rooted && place.rooted));
                others.map(|(_, rows)| rows.as_slice()).collect()
            }
        }
    }

    fn has_one_node(&self) -> bool {
        self.topology.facts.numa.known().is_some_and(|nodes| nodes.len() == 1)
    }
}
