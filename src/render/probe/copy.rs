//! The figures of `gdr probe copy` as tables.

use std::collections::BTreeSet;

use super::grid::grid;
use super::lines::line_of;
use super::panel::DIRECTIONS;
use super::{figure_or_dash, size};
use crate::model::ProbeResult;
use crate::render::Style;

/// A column of the sweep: the figure of a way to copy.
struct Column {
    head: &'static str,
    /// The first words of its results' names.
    way: &'static str,
    figure: Figure,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    Latency,
    Bandwidth,
    CpuTime,
}

impl Figure {
    fn of(self, result: &ProbeResult) -> Option<f64> {
        let us = result.median;
        match self {
            Self::Latency => us,
            Self::Bandwidth => {
                us.filter(|us| *us > 0.0).and_then(|us| Some(result.bytes? as f64 / us / 1e3))
            }
            Self::CpuTime => result.cpu,
        }
    }
}

const COLUMNS: [Column; 7] = [
    Column::new("mapped us", "copy", Figure::Latency),
    Column::new("GB/s", "copy", Figure::Bandwidth),
    Column::new("CPU us", "copy", Figure::CpuTime),
    Column::new("pinned us", "cuda.pinned", Figure::Latency),
    Column::new("CPU us", "cuda.pinned", Figure::CpuTime),
    Column::new("pageable us", "cuda.pageable", Figure::Latency),
    Column::new("CPU us", "cuda.pageable", Figure::CpuTime),
];

impl Column {
    const fn new(head: &'static str, way: &'static str, figure: Figure) -> Self {
        Self { head, way, figure }
    }
}

/// Latencies, bandwidth and CPU time by size, for each direction.
pub fn sweep(results: &[&ProbeResult], node: Option<u32>, style: Style) -> String {
    let found = |name: &str, bytes: u64| {
        results.iter().find(|result| result.name == name && result.bytes == Some(bytes))
    };
    let sizes: BTreeSet<u64> = results
        .iter()
        .filter(|result| result.name.starts_with("copy.") && result.name.ends_with(".latency"))
        .filter_map(|result| result.bytes)
        .collect();
    if sizes.is_empty() {
        return String::new();
    }
    let any = |test: &dyn Fn(&ProbeResult) -> bool| results.iter().any(|result| test(result));
    let with_cuda = any(&|result| result.name.starts_with("cuda."));
    let with_cpu = any(&|result| result.cpu.is_some());
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| with_cuda || column.way == "copy")
        .filter(|column| with_cpu || column.figure != Figure::CpuTime)
        .collect();
    let head = std::iter::once("size").chain(columns.iter().map(|column| column.head));
    let head: Vec<String> = head.map(str::to_owned).collect();
    let from = node.map_or_else(String::new, |node| format!(", CPUs of NUMA node {node}"));
    let mut text = String::new();
    for (direction, words) in DIRECTIONS {
        let cell = |column: &Column, bytes: u64| {
            let result = found(&format!("{}.{direction}.latency", column.way), bytes);
            figure_or_dash(result.and_then(|result| column.figure.of(result)))
        };
        let row = |bytes: &u64| {
            let figures = columns.iter().map(|column| cell(column, *bytes));
            std::iter::once(size(*bytes)).chain(figures).collect()
        };
        let rows: Vec<Vec<String>> = sizes.iter().map(row).collect();
        text.push_str(&grid(&format!("medians, {words}{from}"), &head, &rows, style));
    }
    text + &crossovers(results, style)
}

fn crossovers(results: &[&ProbeResult], style: Style) -> String {
    let mut text = String::new();
    for (suffix, better) in [("", "is faster"), (".cpu", "uses less CPU time")] {
        for (direction, words) in DIRECTIONS {
            let name = format!("crossover.{direction}{suffix}");
            if let Some(result) = results.iter().find(|result| result.name == name) {
                let line = match result.median {
                    Some(bytes) => format!(
                        "cuMemcpy with pinned memory {better} {words} from {} on",
                        size(bytes as u64)
                    ),
                    None => format!("the mapping {better} {words} at every size measured"),
                };
                text.push_str(&line_of(&line, style));
            }
        }
    }
    text
}
