//! Tables of latencies and bandwidths, a column for each figure and a row for each message size.

use std::collections::BTreeSet;

use super::grid::grid;
use super::{figure, size};
use crate::model::ProbeResult;
use crate::model::figure::FigureKind;
use crate::render::Style;

fn at<'r>(results: &[&'r ProbeResult], name: &str, bytes: u64) -> Option<&'r ProbeResult> {
    let found = results.iter().find(|result| result.name == name && result.bytes == Some(bytes));
    found.copied()
}

/// The columns that have results, and their sizes.
fn measured(results: &[&ProbeResult], columns: &[FigureKind]) -> (Vec<FigureKind>, BTreeSet<u64>) {
    let of = |column: &FigureKind| {
        let name = column.name;
        results.iter().filter(move |result| result.name == name && result.median.is_some())
    };
    let mut shown = columns.to_vec();
    shown.retain(|column| of(column).next().is_some());
    let sizes = shown.iter().flat_map(of).filter_map(|result| result.bytes).collect();
    (shown, sizes)
}

/// A figure of any size, or a dash.
pub fn small_figure(value: Option<f64>) -> String {
    let format = |value: f64| match value {
        // For small messages.
        value if value > 0.0 && value < 0.0001 => format!("{value:.1e}"),
        value if value > 0.0 && value < 0.01 => format!("{value:.5}"),
        value => figure(value),
    };
    value.map_or_else(|| "-".to_owned(), format)
}

/// Latencies, in microseconds.
pub fn latencies_by_size(results: &[&ProbeResult], columns: &[FigureKind], style: Style) -> String {
    let (shown, sizes) = measured(results, columns);
    if shown.is_empty() {
        return String::new();
    }
    let mut head = vec!["size".to_owned()];
    for FigureKind { heading, .. } in &shown {
        head.extend(["", " p99", " p99.9"].map(|share| format!("{heading}{share}")));
    }
    let rows: Vec<Vec<String>> = sizes
        .into_iter()
        .map(|bytes| {
            let mut row = vec![size(bytes)];
            for FigureKind { name, .. } in &shown {
                let found = at(results, name, bytes);
                let shares = found.map_or([None; 3], |found| [found.median, found.p99, found.p999]);
                row.extend(shares.map(small_figure));
            }
            row
        })
        .collect();
    grid("latency, us: median, p99 and p99.9", &head, &rows, style)
}

/// Bandwidths, in GB/s.
pub fn bandwidths_by_size(
    results: &[&ProbeResult],
    columns: &[FigureKind],
    style: Style,
) -> String {
    medians_by_size("bandwidth, GB/s", results, columns, style)
}

/// Medians of any unit.
pub fn medians_by_size(
    title: &str,
    results: &[&ProbeResult],
    columns: &[FigureKind],
    style: Style,
) -> String {
    let (shown, sizes) = measured(results, columns);
    if shown.is_empty() {
        return String::new();
    }
    let head = std::iter::once("size").chain(shown.iter().map(|column| column.heading));
    let head: Vec<String> = head.map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = sizes
        .into_iter()
        .map(|bytes| {
            let cells = shown.iter().map(|column| {
                small_figure(at(results, column.name, bytes).and_then(|result| result.median))
            });
            std::iter::once(size(bytes)).chain(cells).collect()
        })
        .collect();
    grid(title, &head, &rows, style)
}
