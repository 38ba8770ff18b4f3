//! Results of copies between GPUs: a matrix for each method, with the accessing GPUs in rows and the accessed GPUs in
//! columns.

use std::collections::BTreeMap;

use super::grid::grid;
use super::lines::line_of;
use super::{figure, figure_or_dash, size};
use crate::model::figure::{FigureKind, p2p};
use crate::model::{ProbeReport, ProbeResult, ProbedGpu, ProbedPair};
use crate::render::Style;

pub fn figures(report: &ProbeReport, style: Style) -> String {
    let names: Vec<&str> = report.gpus.iter().map(short).collect();
    if names.is_empty() {
        return String::new();
    }
    let mut pairs = Pairs::new();
    for pair in &report.pairs {
        pairs.entry(&pair.subject).or_insert(pair);
    }
    let mut text = access(&pairs, &names, style);
    for figure in p2p::PAIRS {
        text.push_str(&matrix(report, &pairs, &names, figure, style));
    }
    text + &together(report, style)
}

/// `GPU0` of `GPU0 (0000:3b:00.0)`.
fn short(gpu: &ProbedGpu) -> &str {
    gpu.subject.split(' ').next().unwrap_or_default()
}

/// The pairs by subject.
type Pairs<'r> = BTreeMap<&'r str, &'r ProbedPair>;

fn pair<'r>(pairs: &Pairs<'r>, from: &str, to: &str) -> Option<&'r ProbedPair> {
    pairs.get(format!("{from} -> {to}").as_str()).copied()
}

/// For each subject, the result of this name with the largest size.
fn largest<'r>(report: &'r ProbeReport, name: &str) -> BTreeMap<&'r str, &'r ProbeResult> {
    let mut largest: BTreeMap<&str, &ProbeResult> = BTreeMap::new();
    let measured =
        report.results.iter().filter(|result| result.name == name && result.median.is_some());
    for result in measured {
        let entry = largest.entry(&result.subject).or_insert(result);
        if result.bytes >= entry.bytes {
            *entry = result;
        }
    }
    largest
}

fn table(names: &[&str], title: &str, cell: impl Fn(&str, &str) -> String, style: Style) -> String {
    let head: Vec<String> =
        std::iter::once("").chain(names.iter().copied()).map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = names
        .iter()
        .map(|from| {
            let cells = names.iter().map(|to| cell(from, to));
            std::iter::once((*from).to_owned()).chain(cells).collect()
        })
        .collect();
    grid(title, &head, &rows, style)
}

/// Connection of each pair, and whether CUDA allows access.
fn access(pairs: &Pairs<'_>, names: &[&str], style: Style) -> String {
    let cell = |from: &str, to: &str| {
        if from == to {
            return "X".to_owned();
        }
        let Some(pair) = pair(pairs, from, to) else {
            return "-".to_owned();
        };
        let connection = match pair.nvlinks {
            Some(links) if links > 0 => format!("NV{links}"),
            _ => pair.class.clone().unwrap_or_else(|| "?".to_owned()),
        };
        let allowed = match pair.can_access {
            Some(true) => "yes",
            Some(false) => "no",
            None => "?",
        };
        format!("{connection} {allowed}")
    };
    table(names, "connection, and whether CUDA allows access", cell, style)
}

fn matrix(
    report: &ProbeReport,
    pairs: &Pairs<'_>,
    names: &[&str],
    FigureKind { name, heading, of_link, .. }: FigureKind,
    style: Style,
) -> String {
    let first = report.results.iter().find(|result| result.name == name && result.median.is_some());
    let Some(first) = first else {
        return String::new();
    };
    let largest_of = largest(report, name);
    // The diagonal: copies within a GPU.
    let local = largest(report, p2p::LOCAL);
    let local = |gpu: &str| {
        let probed = report.gpus.iter().find(|probed| short(probed) == gpu)?;
        local.get(probed.subject.as_str())
    };
    let cell = |from: &str, to: &str| {
        if from == to {
            let found = local(from).filter(|_| name == p2p::WRITE.name);
            return figure_or_dash(found.and_then(|result| result.median));
        }
        let found = largest_of.get(format!("{from} -> {to}").as_str());
        let found = found.and_then(|result| result.median);
        let link = pair(pairs, from, to).and_then(|pair| pair.link).filter(|link| *link > 0);
        match (found, link.filter(|_| of_link)) {
            (Some(rate), Some(link)) => {
                format!("{} {:>3.0}%", figure(rate), 100.0 * rate * 1e9 / link as f64)
            }
            (rate, _) => figure_or_dash(rate),
        }
    };
    let sizes: Vec<u64> = report
        .results
        .iter()
        .filter(|result| result.name == name)
        .filter_map(|result| result.bytes)
        .collect();
    let title = match sizes.iter().max() {
        Some(bytes) if first.unit == "GB/s" => format!("{heading}, {}", size(*bytes)),
        _ => heading.to_owned(),
    };
    table(names, &title, cell, style)
}

/// Transfers of several GPUs at once.
fn together(report: &ProbeReport, style: Style) -> String {
    let mut text = String::new();
    for FigureKind { name, heading: words, .. } in p2p::TOGETHER {
        for result in report.results.iter().filter(|result| result.name == name) {
            if let Some(median) = result.median {
                let subject = result.subject.split(" (").next().unwrap_or_default();
                let line = format!("{subject} {words}: {} GB/s", figure(median));
                text.push_str(&line_of(&line, style));
            }
        }
    }
    if text.is_empty() { text } else { format!("\n{text}") }
}
