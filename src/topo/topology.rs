//! The rows of a machine with cached data, from which any pair is computed on demand.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use super::classify::{End, class};
use super::forest::Forest;
use super::nvlinks::NvLinks;
use super::{pairing, rows};
use crate::model::{Bdf, Fact, Facts, Kind, Match, Pair, PciClass, PciDevice, Row, Why};

pub struct Topology<'a> {
    /// GPUs, then NICs, then NVMe controllers.
    pub rows: Vec<Row>,
    /// For each GPU its NICs, for each NIC its GPUs.
    pub matches: Vec<Match>,
    pub forest: Forest<'a>,
    pub(super) facts: &'a Facts,
    /// The data that decide each row's pairs, in row order.
    ends: Vec<End<'a>>,
    nvlinks: NvLinks,
    /// The first row of each name, in lower case.
    names: HashMap<String, usize>,
    /// The first NIC or controller of each device name.
    labels: HashMap<String, usize>,
    addresses: HashMap<Bdf, usize>,
    /// The rows whose traffic to the root passes a function.
    pub(super) below: OnceCell<BTreeMap<Bdf, Vec<usize>>>,
}

pub fn topology(facts: &Facts) -> Topology<'_> {
    let rows = rows::rows(facts);
    let ends = rows.iter().map(|row| end(facts, row)).collect();
    let (mut names, mut labels, mut addresses) = (HashMap::new(), HashMap::new(), HashMap::new());
    for (at, row) in rows.iter().enumerate() {
        names.entry(row.name.to_ascii_lowercase()).or_insert(at);
        if row.kind != Kind::Gpu {
            labels.entry(row.label.clone()).or_insert(at);
        }
        if let Some(bdf) = row.bdf {
            addresses.entry(bdf).or_insert(at);
        }
    }
    let mut topology = Topology {
        rows,
        matches: Vec::new(),
        forest: Forest::new(facts.devices()),
        facts,
        ends,
        nvlinks: NvLinks::new(facts),
        names,
        labels,
        addresses,
        below: OnceCell::new(),
    };
    topology.matches = pairing::matches(&topology);
    topology
}

fn end<'a>(facts: &'a Facts, row: &Row) -> End<'a> {
    end_of(facts, row.bdf, row.numa.clone())
}

/// A function as one end of a pair.
pub(super) fn end_of(facts: &Facts, bdf: Option<Bdf>, numa: Fact<Option<u32>>) -> End<'_> {
    let device = bdf.and_then(|bdf| facts.device(bdf));
    let place = device.map_or(Fact::Unknown(Why::NotCovered), |device| device.place.as_ref());
    End { bdf, place, numa }
}

impl<'a> Topology<'a> {
    /// The rows of one kind, with their indices.
    pub fn rows_of(&self, kind: Kind) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().filter(move |(_, row)| row.kind == kind)
    }

    /// The pair of two different rows, in either order.
    pub fn pair(&self, a: usize, b: usize) -> Option<Pair> {
        // Symmetric, except for links that only one end reports.
        let (low, high) = (self.ends.get(a.min(b))?, self.ends.get(a.max(b)).filter(|_| a != b)?);
        Some(Pair {
            pci: class(self.facts, low, high),
            nvlinks: self.nvlinks.between(low.bdf, high.bdf),
        })
    }

    /// The PCI class of a pair, if known.
    pub fn class(&self, a: usize, b: usize) -> Option<PciClass> {
        let (low, high) = (self.ends.get(a.min(b))?, self.ends.get(a.max(b)).filter(|_| a != b)?);
        class(self.facts, low, high).known().copied()
    }

    /// Finds a row by its name, its device name or its address.
    pub fn find(&self, name: &str) -> Option<usize> {
        let by_name = self.names.get(&name.to_ascii_lowercase()).copied();
        let by_label = self.labels.get(name).copied();
        let by_address = name.parse().ok().and_then(|bdf: Bdf| self.row_at(bdf));
        [by_name, by_label, by_address].into_iter().flatten().min()
    }

    pub fn number(&self, row: &Row) -> Option<usize> {
        self.names.get(&row.name.to_ascii_lowercase()).copied()
    }

    /// The first row of this PCI function.
    pub fn row_at(&self, bdf: Bdf) -> Option<usize> {
        self.addresses.get(&bdf).copied()
    }

    pub(super) fn end(&self, row: usize) -> Option<&End<'a>> {
        self.ends.get(row)
    }

    pub fn device(&self, row: usize) -> Option<&'a PciDevice> {
        self.facts.device(self.ends.get(row)?.bdf?)
    }
}
