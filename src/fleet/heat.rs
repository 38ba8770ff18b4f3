//! A heat map: the worst share of each pair of names.

use std::collections::{BTreeSet, HashMap};

use super::names::cut;
use super::natural;
use crate::model::{HeatMap, Order as _};

/// Most rows of a heat map.
const MAX_ROWS: usize = 64;

/// The worst share of each pair of names.
pub fn share_map(links: &[(&str, &str, f64)]) -> Option<HeatMap> {
    let ends: BTreeSet<&str> = links.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
    let mut ends: Vec<&str> = ends.into_iter().collect();
    if ends.is_empty() {
        return None;
    }
    ends.order_by(|a, b| natural(a).cmp(&natural(b)));
    let step = ends.len().div_ceil(MAX_ROWS);
    let rows: HashMap<&str, usize> =
        ends.iter().enumerate().map(|(at, end)| (*end, at / step)).collect();
    let names: Vec<String> = ends
        .chunks(step)
        .map(|chunk| match chunk {
            [first, .., last] => format!("{} \u{2026} {}", cut(first), cut(last)),
            chunk => cut(&chunk.concat()),
        })
        .collect();
    let mut cells = vec![vec![None; names.len()]; names.len()];
    for (from, to, share) in links {
        let cell: &mut Option<f64> = &mut cells[rows[from]][rows[to]];
        let share = (share * 1000.0).round() / 1000.0;
        *cell = Some(cell.map_or(share, |known| known.min(share)));
    }
    Some(HeatMap { names, cells })
}
