//! Results of copies between host and GPU: by kind of host memory, through two buffers, and by chunk size.

use std::collections::BTreeSet;

use super::grid::grid;
use super::lines::line_of;
use super::{figure, figure_or_dash, size};
use crate::model::ProbeResult;
use crate::model::figure::Direction;
use crate::model::figure::host::{self, HostMemoryKind, Staging};
use crate::render::Style;

/// The results of one GPU, with the CPUs of one node.
pub fn figures(results: &[&ProbeResult], node: Option<u32>, style: Style) -> String {
    let from = node.map_or_else(String::new, |node| format!(", CPUs of NUMA node {node}"));
    let mut text = String::new();
    for direction in Direction::BOTH {
        text.push_str(&sweep(results, direction, &format!("{}{from}", direction.words()), style));
    }
    text + &both(results, style) + &kernels(results, style) + &staged(results, style)
}

fn find<'r>(
    results: &[&'r ProbeResult],
    name: &str,
    bytes: Option<u64>,
) -> Option<&'r ProbeResult> {
    let mut results = results.iter().copied();
    results.find(|result| {
        result.name == name && (bytes.is_none() || result.bytes == bytes) && result.median.is_some()
    })
}

fn median(results: &[&ProbeResult], name: &str, bytes: Option<u64>) -> String {
    figure_or_dash(find(results, name, bytes).and_then(|result| result.median))
}

/// The sizes of the results in these columns.
fn sizes(results: &[&ProbeResult], columns: &[(&'static str, String)]) -> BTreeSet<u64> {
    let in_columns = |result: &&&ProbeResult| columns.iter().any(|(_, name)| *name == result.name);
    results.iter().filter(in_columns).filter_map(|result| result.bytes).collect()
}

/// A table by size: a column for each heading and name.
fn by_size(
    title: &str,
    results: &[&ProbeResult],
    sizes: &BTreeSet<u64>,
    columns: &[(&'static str, String)],
    style: Style,
) -> String {
    let row = |bytes: &u64| {
        let figures = columns.iter().map(|(_, name)| median(results, name, Some(*bytes)));
        std::iter::once(size(*bytes)).chain(figures).collect()
    };
    let rows: Vec<Vec<String>> = sizes.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads = std::iter::once("size").chain(columns.iter().map(|(head, _)| *head));
    grid(title, &heads.map(str::to_owned).collect::<Vec<_>>(), &rows, style)
}

fn sweep(results: &[&ProbeResult], direction: Direction, title: &str, style: Style) -> String {
    let mut kinds = HostMemoryKind::ALL.to_vec();
    kinds.retain(|kind| find(results, &kind.latency(direction), None).is_some());
    let columns = |name: fn(HostMemoryKind, Direction) -> String| -> Vec<(&'static str, String)> {
        kinds.iter().map(|kind| (kind.name(), name(*kind, direction))).collect()
    };
    let latencies = columns(HostMemoryKind::latency);
    let mut bandwidths = columns(HostMemoryKind::bandwidth);
    bandwidths.push(("two buffers", host::extra_copy(direction)));
    let sizes = sizes(results, &latencies);
    let table = |what: &str, unit: &str, columns: &[(&'static str, String)]| {
        by_size(&format!("{what} {title}, {unit}"), results, &sizes, columns, style)
    };
    table("latency", "us", &latencies) + &table("bandwidth", "GB/s", &bandwidths)
}

fn both(results: &[&ProbeResult], style: Style) -> String {
    let kinds = HostMemoryKind::ALL.into_iter().filter(|kind| kind.is_duplex());
    let columns: Vec<_> = kinds.map(|kind| (kind.name(), kind.both())).collect();
    let title = "bandwidth of both directions at once (the sum), GB/s";
    by_size(title, results, &sizes(results, &columns), &columns, style)
}

fn kernels(results: &[&ProbeResult], style: Style) -> String {
    let [load, store, latency] = [host::KERNEL_LOAD, host::KERNEL_STORE, host::KERNEL_LATENCY]
        .map(|name| find(results, name, None).and_then(|result| result.median));
    let parts: Vec<String> = [
        load.map(|rate| format!("loads {} GB/s", figure(rate))),
        store.map(|rate| format!("stores {} GB/s", figure(rate))),
        latency.map(|us| format!("waits {} us for one load", figure(us))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        String::new()
    } else {
        let line = format!("a kernel on pinned host memory {}", parts.join(", "));
        format!("\n{}", line_of(&line, style))
    }
}

/// The pipeline of MPI libraries.
fn staged(results: &[&ProbeResult], style: Style) -> String {
    let columns: Vec<(Direction, Staging)> = Direction::BOTH
        .into_iter()
        .flat_map(|direction| Staging::ALL.map(|mode| (direction, mode)))
        .collect();
    let names: Vec<String> =
        columns.iter().map(|(direction, mode)| mode.bandwidth(*direction)).collect();
    let is_staged = |result: &&&ProbeResult| names.contains(&result.name) && result.chunk.is_some();
    let chunks: BTreeSet<u64> =
        results.iter().filter(is_staged).filter_map(|result| result.chunk).collect();
    if chunks.is_empty() {
        return String::new();
    }
    let rate = |name: &String, chunk: u64| {
        let mut results = results.iter();
        let found = results.find(|result| result.name == *name && result.chunk == Some(chunk));
        figure_or_dash(found.and_then(|result| result.median))
    };
    let row = |chunk: u64| {
        std::iter::once(size(chunk)).chain(names.iter().map(|name| rate(name, chunk))).collect()
    };
    let rows: Vec<Vec<String>> = chunks.into_iter().map(row).collect();
    let heads = columns.iter().map(|(direction, mode)| {
        let way = if *direction == Direction::ToGpu { "to" } else { "from" };
        format!("{way}: {}", mode.name())
    });
    let head: Vec<String> = std::iter::once("chunk".to_owned()).chain(heads).collect();
    let message = results
        .iter()
        .find(is_staged)
        .and_then(|result| result.bytes)
        .map_or_else(String::new, size);
    let mut text = grid(
        &format!("{message} through pinned chunks, as MPI libraries copy, GB/s"),
        &head,
        &rows,
        style,
    );
    for direction in Direction::BOTH {
        let best = find(results, &host::best_chunk(direction), None);
        if let Some(best) = best.and_then(|result| result.median) {
            let line = format!("best chunk {}: {}", direction.words(), size(best as u64));
            text.push_str(&line_of(&line, style));
        }
    }
    text
}
