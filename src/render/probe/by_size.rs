//! Tables of latencies and bandwidths, a row for each message size. A column is the name of its results, and its heading.

use std::collections::BTreeSet;

use super::grid::grid;
use super::{figure, size};
use crate::model::ProbeResult;
use crate::render::Style;

fn sizes(results: &[&ProbeResult], columns: &[(&str, &str)]) -> BTreeSet<u64> {
    let in_columns = |result: &&&ProbeResult| {
        columns.iter().any(|(name, _)| result.name == *name) && result.median.is_some()
    };
    results.iter().filter(in_columns).filter_map(|result| result.bytes).collect()
}

fn at<'r>(results: &[&'r ProbeResult], name: &str, bytes: u64) -> Option<&'r ProbeResult> {
    let found = results.iter().find(|result| result.name == name && result.bytes == Some(bytes));
    found.copied()
}

fn measured<'c>(
    results: &[&ProbeResult],
    columns: &'c [(&'c str, &'c str)],
) -> Vec<&'c (&'c str, &'c str)> {
    let has_results = |column: &&(&str, &str)| {
        let mut results = results.iter();
        results.any(|result| result.name == column.0 && result.median.is_some())
    };
    columns.iter().filter(has_results).collect()
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
pub fn latencies_by_size(
    results: &[&ProbeResult],
    columns: &[(&str, &str)],
    style: Style,
) -> String {
    let shown = measured(results, columns);
    if shown.is_empty() {
        return String::new();
    }
    let mut head = vec!["size".to_owned()];
    for (_, word) in &shown {
        head.extend([(*word).to_owned(), format!("{word} p99"), format!("{word} p99.9")]);
    }
    let rows: Vec<Vec<String>> = sizes(results, columns)
        .into_iter()
        .map(|bytes| {
            let mut row = vec![size(bytes)];
            for (name, _) in &shown {
                let found = at(results, name, bytes);
                row.extend([
                    small_figure(found.and_then(|result| result.median)),
                    small_figure(found.and_then(|result| result.p99)),
                    small_figure(found.and_then(|result| result.p999)),
                ]);
            }
            row
        })
        .collect();
    grid("latency, us: median, p99 and p99.9", &head, &rows, style)
}

/// Bandwidths, in GB/s.
pub fn bandwidths_by_size(
    results: &[&ProbeResult],
    columns: &[(&str, &str)],
    style: Style,
) -> String {
    medians_by_size("bandwidth, GB/s", results, columns, style)
}

/// Medians of any unit.
pub fn medians_by_size(
    title: &str,
    results: &[&ProbeResult],
    columns: &[(&str, &str)],
    style: Style,
) -> String {
    let shown = measured(results, columns);
    if shown.is_empty() {
        return String::new();
    }
    let words = shown.iter().map(|(_, word)| (*word).to_owned());
    let head: Vec<String> = std::iter::once("size".to_owned()).chain(words).collect();
    let rows: Vec<Vec<String>> = sizes(results, columns)
        .into_iter()
        .map(|bytes| {
            let cells = shown.iter().map(|(name, _)| {
                small_figure(at(results, name, bytes).and_then(|result| result.median))
            });
            std::iter::once(size(bytes)).chain(cells).collect()
        })
        .collect();
    grid(title, &head, &rows, style)
}
