//! Results of copies between host and GPU: by kind of host memory, through two buffers, and by chunk size.

use std::collections::BTreeSet;

use super::grid::grid;
use super::lines::line_of;
use super::{figure, figure_or_dash, size};
use crate::model::ProbeResult;
use crate::render::Style;

const KINDS: [&str; 4] = ["pageable", "pinned", "registered", "write-combined"];
const DIRECTIONS: [(&str, &str); 2] = [("h2d", "to the GPU"), ("d2h", "from the GPU")];

/// The results of one GPU, with the CPUs of one node.
pub fn figures(results: &[&ProbeResult], node: Option<u32>, style: Style) -> String {
    let from = node.map_or_else(String::new, |node| format!(", CPUs of NUMA node {node}"));
    let mut text = String::new();
    for (direction, words) in DIRECTIONS {
        text.push_str(&sweep(results, direction, &format!("{words}{from}"), style));
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

/// The sizes of results whose names have this prefix and suffix.
fn sizes(results: &[&ProbeResult], begin: &str, end: &str) -> BTreeSet<u64> {
    let named = results
        .iter()
        .filter(|result| result.name.starts_with(begin) && result.name.ends_with(end));
    named.filter_map(|result| result.bytes).collect()
}

fn sweep(results: &[&ProbeResult], direction: &str, title: &str, style: Style) -> String {
    let kinds: Vec<&str> = KINDS
        .into_iter()
        .filter(|kind| find(results, &format!("host.{kind}.{direction}.latency"), None).is_some())
        .collect();
    let name = |kind: &str, figure: &str| format!("host.{kind}.{direction}.{figure}");
    let bytes: BTreeSet<u64> =
        kinds.iter().flat_map(|kind| sizes(results, &name(kind, "latency"), "")).collect();
    if bytes.is_empty() {
        return String::new();
    }
    let table = |figure: &str, unit: &str, extra: &[(&str, String)]| {
        let kinds = kinds.iter().map(|kind| (*kind, name(kind, figure)));
        let columns: Vec<(&str, String)> = kinds.chain(extra.iter().cloned()).collect();
        let head = columns.iter().map(|(head, _)| (*head).to_owned());
        let head: Vec<String> = std::iter::once("size".to_owned()).chain(head).collect();
        let row = |bytes: &u64| {
            let figures = columns.iter().map(|(_, name)| median(results, name, Some(*bytes)));
            std::iter::once(size(*bytes)).chain(figures).collect()
        };
        let rows: Vec<Vec<String>> = bytes.iter().map(row).collect();
        grid(&format!("{figure} {title}, {unit}"), &head, &rows, style)
    };
    let buffers = format!("host.extra-copy.{direction}.bandwidth");
    table("latency", "us", &[]) + &table("bandwidth", "GB/s", &[("two buffers", buffers)])
}

fn both(results: &[&ProbeResult], style: Style) -> String {
    let rows: Vec<Vec<String>> = sizes(results, "host.", ".both.bandwidth")
        .into_iter()
        .map(|bytes| {
            let kinds = KINDS[1..].iter();
            let figures = kinds
                .map(|kind| median(results, &format!("host.{kind}.both.bandwidth"), Some(bytes)));
            std::iter::once(size(bytes)).chain(figures).collect()
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head: Vec<String> =
        ["size", "pinned", "registered", "write-combined"].map(str::to_owned).to_vec();
    grid("bandwidth of both directions at once (the sum), GB/s", &head, &rows, style)
}

fn kernels(results: &[&ProbeResult], style: Style) -> String {
    let [load, store, latency] =
        ["load.bandwidth", "store.bandwidth", "load.latency"].map(|name| {
            find(results, &format!("host.kernel.{name}"), None).and_then(|result| result.median)
        });
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
    let is_staged =
        |result: &&&ProbeResult| result.name.starts_with("host.staged.") && result.chunk.is_some();
    let chunks: BTreeSet<u64> =
        results.iter().filter(is_staged).filter_map(|result| result.chunk).collect();
    if chunks.is_empty() {
        return String::new();
    }
    let rate = |direction: &str, mode: &str, chunk: u64| {
        let name = format!("host.staged.{direction}.{mode}.bandwidth");
        let found =
            results.iter().find(|result| result.name == name && result.chunk == Some(chunk));
        figure_or_dash(found.and_then(|result| result.median))
    };
    let rows: Vec<Vec<String>> = chunks
        .into_iter()
        .map(|chunk| {
            let figures = DIRECTIONS.into_iter().flat_map(|(direction, _)| {
                ["serial", "overlapped"].map(|mode| rate(direction, mode, chunk))
            });
            std::iter::once(size(chunk)).chain(figures).collect()
        })
        .collect();
    let head = ["chunk", "to: serial", "to: overlapped", "from: serial", "from: overlapped"]
        .map(str::to_owned);
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
    for (direction, words) in DIRECTIONS {
        if let Some(best) = find(results, &format!("host.staged.{direction}.best-chunk"), None)
            .and_then(|r| r.median)
        {
            text.push_str(&line_of(&format!("best chunk {words}: {}", size(best as u64)), style));
        }
    }
    text
}
