//! The figures of `gdr probe copy` as tables.

use std::collections::BTreeSet;

use super::grid::grid;
use super::lines::line_of;
use super::{figure_or_dash, size};
use crate::model::ProbeResult;
use crate::model::figure::Direction;
use crate::model::figure::copy::{MAPPING, Quantity, WAYS, Way};
use crate::render::Style;

/// Latencies, bandwidth and CPU time by size, for each direction.
pub fn sweep(results: &[&ProbeResult], node: Option<u32>, style: Style) -> String {
    let found = |name: &str, bytes: u64| {
        results.iter().find(|result| result.name == name && result.bytes == Some(bytes))
    };
    let swept = Direction::BOTH.map(|direction| MAPPING.latency(direction));
    let sizes: BTreeSet<u64> = results
        .iter()
        .filter(|result| swept.contains(&result.name))
        .filter_map(|result| result.bytes)
        .collect();
    if sizes.is_empty() {
        return String::new();
    }
    let has = |way: &Way| results.iter().any(|result| result.name.starts_with(way.name));
    let has_backend =
        |way: &Way| WAYS.iter().any(|other| other.backend == way.backend && has(other));
    let is_measured = |quantity: Quantity| {
        let of_way = |way: &Way| Direction::BOTH.map(|direction| way.result(quantity, direction));
        let names: Vec<String> = WAYS.iter().flat_map(of_way).collect();
        results.iter().any(|result| names.contains(&result.name) && quantity.of(result).is_some())
    };
    let columns: Vec<(Way, Quantity)> = WAYS
        .into_iter()
        .filter(has_backend)
        .flat_map(|way| way.quantities.iter().map(move |quantity| (way, *quantity)))
        .filter(|(_, quantity)| *quantity == Quantity::Latency || is_measured(*quantity))
        .collect();
    let heads = columns.iter().map(|(way, quantity)| way.heading(*quantity));
    let head: Vec<String> = std::iter::once("size").chain(heads).map(str::to_owned).collect();
    let from = node.map_or_else(String::new, |node| format!(", CPUs of NUMA node {node}"));
    let mut text = String::new();
    for direction in Direction::BOTH {
        let cell = |(way, quantity): (Way, Quantity), bytes: u64| {
            let result = found(&way.result(quantity, direction), bytes);
            figure_or_dash(result.and_then(|result| quantity.of(result)))
        };
        let row = |bytes: &u64| {
            let figures = columns.iter().map(|column| cell(*column, *bytes));
            std::iter::once(size(*bytes)).chain(figures).collect()
        };
        let rows: Vec<Vec<String>> = sizes.iter().map(row).collect();
        text.push_str(&grid(&format!("medians, {}{from}", direction.words()), &head, &rows, style));
    }
    text + &crossovers(results, style)
}

fn crossovers(results: &[&ProbeResult], style: Style) -> String {
    let mut text = String::new();
    for cost in Quantity::COSTS {
        for direction in Direction::BOTH {
            let name = cost.crossover(direction);
            let Some(result) = results.iter().find(|result| result.name == name) else {
                continue;
            };
            let (better, words) = (cost.better(), direction.words());
            let line = match result.median {
                Some(bytes) => {
                    let from = size(bytes as u64);
                    format!("cuMemcpy with pinned memory {better} {words} from {from} on")
                }
                None => format!("the mapping {better} {words} at every size measured"),
            };
            text.push_str(&line_of(&line, style));
        }
    }
    text
}
