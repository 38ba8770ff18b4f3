//! The curves of GPUDirect's versions: latency and bandwidth by size, and the distance of GPU and NIC.

use super::INDENT;
use super::by_size::medians_by_size;
use super::lines::{failures, line_of, verified};
use super::panel::{Line, Panel, What, drawn, line};
use super::rdma::describe_ends;
use crate::model::figure::FigureKind;
use crate::model::figure::transfer::{self, CurveKind};
use crate::model::{ProbeReport, ProbeResult};
use crate::render::Style;
use crate::render::svg::Stroke;
use crate::render::text::{Tone, printable, wrap};

/// Lines of the distances.
const DISTANCES: [Stroke; 5] =
    [Stroke::First, Stroke::Second, Stroke::Third, Stroke::Fourth, Stroke::Fifth];
type Figure = fn(CurveKind) -> FigureKind;
/// What is measured at each size, on the axes, and the title without its unit.
const FIGURES: [(Figure, What, &str); 2] = [
    (|curve| curve.latency, What::Latency, "half of the round trip"),
    (|curve| curve.bandwidth, What::Bandwidth, "bandwidth"),
];

/// The results of one GPU and its NIC, and what belongs beside them: its farthest NIC, and its copies to another GPU.
struct Chapter<'r> {
    subject: &'r str,
    results: Vec<&'r ProbeResult>,
}

fn chapters(report: &ProbeReport) -> Vec<Chapter<'_>> {
    let gpu = |subject: &str| subject.split(' ').next().map(str::to_owned);
    let is_beside = |result: &ProbeResult| {
        let names = |curve: CurveKind| [curve.latency.name, curve.bandwidth.name, curve.validated];
        [transfer::V2, transfer::V3_FAR]
            .iter()
            .any(|curve| names(*curve).contains(&result.name.as_str()))
    };
    let mut chapters: Vec<Chapter<'_>> = Vec::new();
    for result in report.results.iter().filter(|result| result.subject != "machine") {
        let subject = result.subject.as_str();
        let found = chapters.iter_mut().find(|chapter| {
            chapter.subject == subject || is_beside(result) && gpu(chapter.subject) == gpu(subject)
        });
        match found {
            Some(chapter) => chapter.results.push(result),
            None => chapters.push(Chapter { subject, results: vec![result] }),
        }
    }
    chapters
}

pub fn figures(report: &ProbeReport, style: Style) -> String {
    let mut text = String::new();
    for Chapter { subject, results } in chapters(report) {
        let title = wrap(&printable(subject), style.width, 0, INDENT);
        text.push_str(&format!("\n{}\n", style.paint(Tone::Strong, &title)));
        text.push_str(&describe_ends(report, subject, style));
        text.push_str(&line_of(&verified(&results), style));
        let pipelined = transfer::V1_PIPELINED.bandwidth.name;
        let mut chunks = results.iter().filter(|result| result.name == pipelined);
        if let Some(chunk) = chunks.find_map(|result| result.chunk) {
            let line = format!("best chunk of v1 over the wire: {}", super::size(chunk));
            text.push_str(&line_of(&line, style));
        }
        text.push_str(&failures(&results, INDENT, style, false));
        for (figure, _, words) in FIGURES {
            let columns = transfer::CURVES.map(figure);
            let title = format!("{words}, {}", columns[0].unit);
            text.push_str(&medians_by_size(&title, &results, &columns, style));
        }
    }
    text
}

/// Latency and bandwidth of each curve, and the bandwidth of GPUDirect RDMA by the distance of GPU and NIC.
pub fn panels(report: &ProbeReport) -> Vec<Panel> {
    let chapters = chapters(report);
    let mut panels = Vec::new();
    for chapter in &chapters {
        for (figure, what, words) in FIGURES {
            let of_curve = |figure: FigureKind| {
                let found = chapter.results.iter().find(|result| result.name == figure.name);
                drawn(report, found.map_or(chapter.subject, |result| &result.subject), figure)
            };
            let lines = transfer::CURVES.map(figure).into_iter().filter_map(of_curve).collect();
            panels.push(Panel::new(format!("{}: {words}", chapter.subject), what, lines));
        }
    }
    let title = "GPUDirect RDMA by the distance of GPU and NIC".to_owned();
    panels.push(Panel::new(title, What::Bandwidth, distances(report)));
    panels
}

/// v3 by path class: the first GPU and NIC of each, and all whose class is unknown.
fn distances(report: &ProbeReport) -> Vec<Line> {
    let names = [transfer::V3.bandwidth.name, transfer::V3_FAR.bandwidth.name];
    let mut found: Vec<(&str, &str, Option<&str>)> = Vec::new();
    for result in &report.results {
        let Some(name) = names.into_iter().find(|name| *name == result.name) else {
            continue;
        };
        let subject = result.subject.as_str();
        let end = report.ends.iter().find(|end| end.subject == near(subject));
        let class = end.and_then(|end| end.class.as_deref());
        let is_known = |known: &(&str, &str, Option<&str>)| {
            (known.0, known.1) == (subject, name) || class.is_some() && known.2 == class
        };
        if !found.iter().any(is_known) {
            found.push((subject, name, class));
        }
    }
    let of_place = |((subject, name, class), stroke): ((&str, &str, Option<&str>), Stroke)| {
        let label = format!("{}, {}", near(subject), class.unwrap_or("unknown distance"));
        line(report, subject, name, stroke, &label)
    };
    found.into_iter().zip(DISTANCES).map(of_place).collect()
}

/// The local end of a connection.
fn near(subject: &str) -> &str {
    subject.split(" -> ").next().unwrap_or_default()
}
