//! The curves of GPUDirect's versions: latency and bandwidth by size, and the distance of GPU and NIC.

use super::INDENT;
use super::grid::grid;
use super::lines::{failures, line_of, verified};
use super::panel::{Line, Panel};
use super::rdma::{at, measured, sizes, small_figure};
use crate::model::{ProbeReport, ProbeResult};
use crate::render::Style;
use crate::render::svg::Stroke;

/// A curve: its part of a result's name, its label, and its line.
const CURVES: [(&str, &str, Stroke); 6] = [
    ("host", "host to host, the ceiling", Stroke::Limit),
    ("v3", "v3, RDMA of GPU memory", Stroke::First),
    ("v2", "v2, peer to peer in one node", Stroke::Second),
    ("v1-pipelined", "v1, copy and send in chunks", Stroke::Third),
    ("v1", "v1, copy and send", Stroke::Fifth),
    (
        "no-gpudirect",
        "no GPUDirect, pageable copies",
        Stroke::Fourth,
    ),
];

pub fn figures(report: &ProbeReport, style: Style) -> String {
    let results: Vec<&ProbeResult> = report
        .results
        .iter()
        .filter(|result| result.subject != "machine")
        .collect();
    let mut text = String::from("\n");
    for end in &report.ends {
        let which = if end.remote { "remote" } else { "local" };
        let class = end.class.as_ref();
        let class = class.map_or_else(String::new, |class| format!(", path {class}"));
        let path = end.memory_path.as_deref().unwrap_or("host memory");
        let line = format!(
            "{which}: {}, {}, {path}{class}",
            end.subject, end.link_layer
        );
        text.push_str(&line_of(&line, style));
    }
    text.push_str(&line_of(&verified(&results), style));
    if let Some(chunk) = results
        .iter()
        .find(|result| result.name == "transfer.v1-pipelined.bandwidth")
        .and_then(|result| result.chunk)
    {
        let line = format!("best chunk of v1 over the wire: {}", super::size(chunk));
        text.push_str(&line_of(&line, style));
    }
    text.push_str(&failures(&results, INDENT, style, false));
    for (what, title) in [
        ("latency", "half of the round-trip time, us"),
        ("bandwidth", "bandwidth, GB/s"),
    ] {
        text.push_str(&by_size(&results, what, title, style));
    }
    text
}

fn by_size(results: &[&ProbeResult], what: &str, title: &str, style: Style) -> String {
    let mut names: Vec<(String, &str)> = CURVES
        .map(|(curve, ..)| (format!("transfer.{curve}.{what}"), curve))
        .to_vec();
    names.push((format!("transfer.v3-far.{what}"), "v3-far"));
    let columns: Vec<(&str, &str)> = names
        .iter()
        .map(|(name, curve)| (name.as_str(), *curve))
        .collect();
    let columns: Vec<(&str, &str)> = measured(results, &columns)
        .into_iter()
        .copied()
        .filter(|(name, _)| {
            let mut of_name = results.iter().filter(|result| result.name == *name);
            of_name.any(|result| result.median.is_some())
        })
        .collect();
    if columns.is_empty() {
        return String::new();
    }
    let mut head = vec!["size".to_owned()];
    head.extend(columns.iter().map(|(_, curve)| (*curve).to_owned()));
    let rows: Vec<Vec<String>> = sizes(results, &columns)
        .into_iter()
        .map(|bytes| {
            let cells = columns.iter().map(|(name, _)| {
                let result = at(results, name, bytes);
                small_figure(result.and_then(|result| result.median))
            });
            std::iter::once(super::size(bytes)).chain(cells).collect()
        })
        .collect();
    grid(title, &head, &rows, style)
}

/// Bandwidth of each curve, latency as messages per second of one message at a time, and the near and the far NIC.
pub fn panels(report: &ProbeReport) -> Vec<Panel> {
    let line = |name: String, stroke, label: &str| Line {
        stroke,
        label: label.to_owned(),
        points: points(report, &name),
    };
    let curves = CURVES
        .map(|(curve, label, stroke)| line(format!("transfer.{curve}.bandwidth"), stroke, label));
    // Bytes of a message over half of its round trip: both panels have one axis.
    let round_trips = CURVES.map(|(curve, label, stroke)| Line {
        stroke,
        label: label.to_owned(),
        points: points(report, &format!("transfer.{curve}.latency"))
            .into_iter()
            .map(|(bytes, us)| (bytes, bytes / us / 1e3))
            .collect(),
    });
    let class = |name: &str| {
        let subject = report.results.iter().find(|result| result.name == name);
        let subject = subject.map_or("", |result| &result.subject);
        let near = subject.split(" -> ").next().unwrap_or_default();
        let end = report.ends.iter().find(|end| end.subject == near);
        let class = end.and_then(|end| end.class.as_deref());
        format!("{near}, {}", class.unwrap_or("unknown distance"))
    };
    let near = class("transfer.v3.bandwidth");
    let far = class("transfer.v3-far.bandwidth");
    let distance = [
        ("transfer.v3.bandwidth", Stroke::First, near),
        ("transfer.v3-far.bandwidth", Stroke::Third, far),
    ];
    let panel = |title: &str, lines: Vec<Line>| Panel {
        title: title.to_owned(),
        lines,
        link: None,
        crossover: None,
    };
    vec![
        panel("bandwidth", curves.to_vec()),
        panel(
            "one message at a time: bytes over half the round trip",
            round_trips.to_vec(),
        ),
        panel(
            "distance of GPU and NIC",
            distance
                .map(|(name, stroke, label)| line(name.to_owned(), stroke, &label))
                .to_vec(),
        ),
    ]
}

fn points(report: &ProbeReport, name: &str) -> Vec<(f64, f64)> {
    let of_name = report.results.iter().filter(|result| result.name == name);
    let mut points: Vec<(f64, f64)> = of_name
        .filter_map(|result| {
            let median = result.median.filter(|median| *median > 0.0)?;
            Some((result.bytes? as f64, median))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|a, b| a.0 == b.0);
    points
}
