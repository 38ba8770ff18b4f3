//! The rows of a machine with cached data, from which any pair is computed on demand.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use super::classify::{End, class};
use super::forest::Forest;
use super::nvlinks::NvLinks;
use super::{pairing, rows};
use crate::model::{
    Bdf, Fact, Facts, Kind, ListedPair, Match, PciClass, PciDevice, Row, RowPair, Why,
};

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
    /// The number of each row in the source's own matrix.
    listed: Vec<Option<usize>>,
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
    let listed = listed(facts, &rows);
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
        listed,
        names,
        labels,
        addresses,
        below: OnceCell::new(),
    };
    topology.matches = pairing::matches(&topology);
    topology
}

/// The number of each row in the matrix of the source. GPUs are in its order if it has as many.
fn listed(facts: &Facts, rows: &[Row]) -> Vec<Option<usize>> {
    let Some(listed) = facts.listed.as_ref().filter(|listed| !listed.cells.is_empty()) else {
        return Vec::new();
    };
    let gpus = rows.iter().filter(|row| row.kind == Kind::Gpu).count();
    let nics: HashMap<&str, usize> = listed.nics.iter().map(String::as_str).zip(gpus..).collect();
    let number = |(at, row): (usize, &Row)| match row.kind {
        _ if gpus != listed.gpus.len() => None,
        Kind::Gpu => Some(at),
        Kind::Nic => nics.get(row.label.as_str()).copied(),
        Kind::Nvme => None,
    };
    rows.iter().enumerate().map(number).collect()
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
    pub fn pair(&self, a: usize, b: usize) -> Option<RowPair> {
        // Symmetric, except for links that only one end reports.
        let (low, high) = (self.ends.get(a.min(b))?, self.ends.get(a.max(b)).filter(|_| a != b)?);
        let listed = self.listed(a, b);
        let has_addresses = low.bdf.is_some() && high.bdf.is_some();
        let nvlinks = match listed.map(|pair| pair.nvlinks) {
            Some(nvlinks) if !has_addresses => {
                nvlinks.map_or(Fact::Unknown(Why::NotCovered), Fact::Known)
            }
            _ if !has_addresses && self.are_listed_gpus(a, b) => Fact::Unknown(Why::NotCovered),
            _ => self.nvlinks.between(low.bdf, high.bdf),
        };
        Some(RowPair { pci: self.fact_of_class(a, b)?, nvlinks })
    }

    /// The class by the PCI tree; where that leaves it open, by the matrix of the source.
    fn fact_of_class(&self, a: usize, b: usize) -> Option<Fact<PciClass>> {
        let (low, high) = (self.ends.get(a.min(b))?, self.ends.get(a.max(b)).filter(|_| a != b)?);
        let by_tree = class(self.facts, low, high);
        let listed = || self.listed(a, b).and_then(|pair| pair.class);
        Some(match by_tree {
            Fact::Unknown(why) => listed().map_or(Fact::Unknown(why), Fact::Known),
            known => known,
        })
    }

    fn listed(&self, a: usize, b: usize) -> Option<ListedPair> {
        let number = |row: usize| self.listed.get(row).copied().flatten();
        self.facts.listed.as_ref()?.pair(number(a)?, number(b)?)
    }

    /// True for two GPUs of which one at least has no address.
    fn are_listed_gpus(&self, a: usize, b: usize) -> bool {
        let rows = [a, b].map(|row| self.rows.get(row));
        rows.iter().all(|row| row.is_some_and(|row| row.kind == Kind::Gpu))
            && rows.iter().flatten().any(|row| row.bdf.is_none())
    }

    /// True if the matrix of the source has the row, so that its partners need no place in the tree.
    pub(super) fn is_in_matrix(&self, row: usize) -> bool {
        self.listed.get(row).copied().flatten().is_some()
    }

    /// The PCI class of a pair, if known.
    pub fn class(&self, a: usize, b: usize) -> Option<PciClass> {
        self.fact_of_class(a, b)?.known().copied()
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
