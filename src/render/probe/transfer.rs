//! The curves of GPUDirect's versions: latency and bandwidth by size, and the distance of GPU and NIC.

use super::INDENT;
use super::by_size::medians_by_size;
use super::lines::{failures, line_of, verified};
use super::panel::{Line, Panel, What, line, stroke};
use super::rdma::describe_ends;
use crate::model::figure::transfer::{self, CurveKind};
use crate::model::{GIGABYTES_PER_SECOND, MICROSECONDS, ProbeReport, ProbeResult};
use crate::render::Style;
use crate::render::svg::Stroke;
use crate::render::text::{Tone, printable, wrap};

/// Lines of the distances.
const DISTANCES: [Stroke; 5] =
    [Stroke::First, Stroke::Second, Stroke::Third, Stroke::Fourth, Stroke::Fifth];
type Name = fn(CurveKind) -> &'static str;
/// What is measured at each size: its name, on the axes, and the title with its unit.
const FIGURES: [(Name, What, &str, &str); 2] = [
    (|curve| curve.latency, What::Latency, "half of the round trip", MICROSECONDS),
    (|curve| curve.bandwidth, What::Bandwidth, "bandwidth", GIGABYTES_PER_SECOND),
];

/// The results of one GPU and its NIC, and what belongs beside them: its farthest NIC, and its copies to another GPU.
struct Chapter<'r> {
    subject: &'r str,
    results: Vec<&'r ProbeResult>,
}

fn chapters(report: &ProbeReport) -> Vec<Chapter<'_>> {
    let gpu = |subject: &str| subject.split(' ').next().map(str::to_owned);
    let is_beside = |result: &ProbeResult| {
        let names = |curve: CurveKind| [curve.latency, curve.bandwidth, curve.validated];
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
        let pipelined = transfer::V1_PIPELINED.bandwidth;
        let mut chunks = results.iter().filter(|result| result.name == pipelined);
        if let Some(chunk) = chunks.find_map(|result| result.chunk) {
            let line = format!("best chunk of v1 over the wire: {}", super::size(chunk));
            text.push_str(&line_of(&line, style));
        }
        text.push_str(&failures(&results, INDENT, style, false));
        for (name, _, words, unit) in FIGURES {
            let curves = transfer::CURVES.into_iter().chain([transfer::V3_FAR]);
            let columns: Vec<(&str, &str)> =
                curves.map(|curve| (name(curve), curve.name)).collect();
            let title = format!("{words}, {unit}");
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
        for (name, what, words, _) in FIGURES {
            let of_curve = |curve: CurveKind| {
                let name = name(curve);
                let found = chapter.results.iter().find(|result| result.name == name);
                let subject = found.map_or(chapter.subject, |result| &result.subject);
                let stroke = curve.line.map_or(Stroke::Limit, stroke);
                line(report, subject, name, stroke, curve.label)
            };
            panels.push(Panel {
                title: format!("{}: {words}", chapter.subject),
                what,
                lines: transfer::CURVES.map(of_curve).to_vec(),
                link: None,
                crossover: None,
            });
        }
    }
    panels.push(Panel {
        title: "GPUDirect RDMA by the distance of GPU and NIC".to_owned(),
        what: What::Bandwidth,
        lines: distances(report),
        link: None,
        crossover: None,
    });
    panels
}

/// v3 by path class: the first GPU and NIC of each, and all whose class is unknown.
fn distances(report: &ProbeReport) -> Vec<Line> {
    let names = [transfer::V3.bandwidth, transfer::V3_FAR.bandwidth];
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
