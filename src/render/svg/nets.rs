//! What joins rows beside the tree: a GPU and the NIC it should use, and NVLink.

use std::collections::BTreeSet;

use crate::model::{Kind, Match, Topology, Verdict};

use super::scene::Ink;

/// Rows that are joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Net {
    pub rows: Vec<usize>,
    pub ink: Ink,
    /// What the wire says.
    pub text: String,
}

impl Net {
    pub fn is_nvlink(&self) -> bool {
        self.ink == Ink::NvLink
    }
}

/// Each GPU and its NIC: rows and verdict.
pub fn picks(topology: &Topology) -> impl Iterator<Item = (usize, usize, Verdict)> {
    let gpu = |found: &&Match| topology.rows.get(found.row).is_some_and(|row| row.kind == Kind::Gpu);
    let nic = |at: &usize| *at < topology.rows.len();
    topology
        .matches
        .iter()
        .filter(gpu)
        .filter_map(move |found| Some((found.row, found.pick.filter(nic)?, found.verdict)))
}

/// The nets: pairs first, then NVLink.
pub fn nets(topology: &Topology) -> Vec<Net> {
    let mut nets: Vec<Net> = picks(topology)
        .map(|(gpu, nic, verdict)| Net {
            rows: vec![gpu, nic],
            ink: match verdict {
                Verdict::Good => Ink::Good,
                Verdict::LikelyGood => Ink::Fair,
                Verdict::Bad => Ink::Bad,
                Verdict::Unknown => Ink::Unknown,
            },
            text: match topology.pair(gpu, nic).and_then(|pair| pair.pci.known()) {
                Some(class) => class.letters().to_owned(),
                None => "?".to_owned(),
            },
        })
        .collect();
    nets.extend(nvlinks(topology));
    nets
}

/// GPUs that all reach each other over the same number of links are one bar; other pairs a wire each.
fn nvlinks(topology: &Topology) -> Vec<Net> {
    let gpus: Vec<usize> = topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect();
    let links = |a: usize, b: usize| {
        let known = topology.pair(a, b).and_then(|pair| pair.nvlinks.known());
        known.copied().unwrap_or(0)
    };
    let mut left: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (at, &a) in gpus.iter().enumerate() {
        left.extend(gpus[at + 1..].iter().filter(|b| links(a, **b) > 0).map(|b| (a, *b)));
    }
    let mut nets = Vec::new();
    while let Some(&(a, b)) = left.first() {
        let count = links(a, b);
        let mut rows = vec![a, b];
        for &gpu in &gpus {
            let joins = |row: &usize| left.contains(&(gpu.min(*row), gpu.max(*row))) && links(gpu, *row) == count;
            if rows.iter().all(joins) {
                rows.push(gpu);
            }
        }
        rows.sort_unstable();
        for (at, &a) in rows.iter().enumerate() {
            for &b in &rows[at + 1..] {
                left.remove(&(a, b));
            }
        }
        nets.push(Net {
            rows,
            ink: Ink::NvLink,
            text: format!("NV{count}"),
        });
    }
    nets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Fact, Pair, PciClass};
    use crate::render::svg::machines;

    #[test]
    fn equal_links_are_one_bar_and_others_are_not() {
        let mut topology = Topology {
            rows: (0..4).map(machines::gpu_row).collect(),
            ..Topology::default()
        };
        // 0-1-2 over two links each; 2-3 over one.
        let pair = |a: usize, b: usize| Pair {
            pci: Fact::Known(PciClass::Sys),
            nvlinks: Fact::Known(match (a, b) {
                (0, 1) | (0, 2) | (1, 2) => 2,
                (2, 3) => 1,
                _ => 0,
            }),
        };
        topology.pairs = (0..4).map(|a| (a + 1..4).map(|b| pair(a, b)).collect()).collect();
        let found: Vec<_> = nets(&topology).into_iter().map(|net| (net.rows, net.text)).collect();
        assert_eq!(
            found,
            [(vec![0, 1, 2], "NV2".to_owned()), (vec![2, 3], "NV1".to_owned())]
        );
    }
}
