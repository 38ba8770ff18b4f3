//! Connections beside the tree: a GPU and its NIC, and NVLink.

use std::collections::BTreeSet;

use crate::model::{Fact, Kind, Match, PciClass, Verdict};
use crate::topo::Topology;

use super::scene::Ink;

/// Connected rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Net {
    pub rows: Vec<usize>,
    pub ink: Ink,
    /// Label of the wire.
    pub text: String,
}

impl Net {
    pub fn is_nvlink(&self) -> bool {
        self.ink == Ink::NvLink
    }
}

/// Each GPU with each NIC of its share of the nearest ones: rows and verdict.
pub fn picks<'a>(
    topology: &'a Topology<'_>,
) -> impl Iterator<Item = (usize, usize, Verdict)> + use<'a> {
    let gpu =
        |found: &&Match| topology.rows.get(found.row).is_some_and(|row| row.kind == Kind::Gpu);
    topology.matches.iter().filter(gpu).flat_map(|found| {
        let nics = if found.nccl.is_empty() { found.pick.as_slice() } else { &found.nccl };
        let nics = nics.iter().filter(|nic| **nic < topology.rows.len());
        nics.map(|nic| (found.row, *nic, found.verdict))
    })
}

/// Maximum number of NVLink wires and bars, and of their ends: routing is quadratic in both.
const MAX_NVLINK_NETS: usize = 256;
const MAX_NVLINK_ENDS: usize = 8_192;

/// All nets to draw.
#[derive(Default)]
pub struct Nets {
    /// The nets: pairs first, then NVLink.
    pub drawn: Vec<Net>,
    /// NVLinks are omitted because there are too many.
    pub no_nvlinks: bool,
}

/// The nets of a machine.
pub fn nets(topology: &Topology<'_>) -> Nets {
    let mut drawn: Vec<Net> = Vec::new();
    for (gpu, nic, verdict) in picks(topology) {
        let text = topology.class(gpu, nic).map_or("?", PciClass::letters);
        // A wire leads from a GPU to all of its NICs at one distance.
        match drawn.iter_mut().find(|net| net.rows[0] == gpu && net.text == text) {
            Some(net) => net.rows.push(nic),
            None => drawn.push(Net {
                rows: vec![gpu, nic],
                ink: match verdict {
                    Verdict::Good => Ink::Good,
                    Verdict::LikelyGood => Ink::Fair,
                    Verdict::Bad => Ink::Bad,
                    Verdict::Unknown => Ink::Unknown,
                },
                text: text.to_owned(),
            }),
        }
    }
    let gpus: Vec<usize> = topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect();
    let nvlinks = nvlinks(&gpus, |a, b| match topology.pair(a, b).map(|pair| pair.nvlinks) {
        Some(Fact::Known(links)) => links,
        _ => 0,
    });
    let no_nvlinks = nvlinks.is_none();
    drawn.extend(nvlinks.into_iter().flatten());
    Nets { drawn, no_nvlinks }
}

/// GPUs that all reach each other over the same number of links form one bar; other pairs get a wire each. None if
/// there are too many.
fn nvlinks(gpus: &[usize], links: impl Fn(usize, usize) -> u32) -> Option<Vec<Net>> {
    let mut left: BTreeSet<(usize, usize)> = BTreeSet::new();
    for (at, &a) in gpus.iter().enumerate() {
        left.extend(gpus[at + 1..].iter().filter(|b| links(a, **b) > 0).map(|b| (a, *b)));
    }
    let mut nets: Vec<Net> = Vec::new();
    let mut ends = 0;
    while let Some(&(a, b)) = left.first() {
        if nets.len() == MAX_NVLINK_NETS || ends > MAX_NVLINK_ENDS {
            return None;
        }
        let count = links(a, b);
        let mut rows = vec![a, b];
        for &gpu in gpus {
            let joins = |row: &usize| {
                left.contains(&(gpu.min(*row), gpu.max(*row))) && links(gpu, *row) == count
            };
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
        ends += rows.len();
        nets.push(Net { rows, ink: Ink::NvLink, text: format!("NV{count}") });
    }
    Some(nets)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn equal_links_form_one_bar() {
        // 0-1-2 with two links each; 2-3 with one.
        let links = |a: usize, b: usize| match (a.min(b), a.max(b)) {
            (0, 1) | (0, 2) | (1, 2) => 2,
            (2, 3) => 1,
            _ => 0,
        };
        let nets = nvlinks(&[0, 1, 2, 3], links).expect("few enough");
        let found: Vec<_> = nets.into_iter().map(|net| (net.rows, net.text)).collect();
        assert_eq!(found, [(vec![0, 1, 2], "NV2".to_owned()), (vec![2, 3], "NV1".to_owned())]);
    }

    #[test]
    fn omits_too_many_links() {
        let gpus: Vec<usize> = (0..64).collect();
        // Each pair has a different number of links.
        let links =
            |a: usize, b: usize| u32::try_from(a.min(b) * 64 + a.max(b)).unwrap_or(u32::MAX);
        assert_eq!(nvlinks(&gpus[..20], links).map(|nets| nets.len()), Some(190));
        assert_eq!(nvlinks(&gpus, links), None);
    }
}
