//! What a chart shows: panels of lines, independent of the output format.

use crate::model::Order as _;
use crate::model::figure::FigureKind;
use crate::model::{ProbeReport, ProbeResult};
use crate::render::svg::Stroke;

#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// For example `GPU0 (0000:3b:00.0): to the GPU`.
    pub title: String,
    pub what: What,
    pub lines: Vec<Line>,
    /// Link bandwidth, GB/s.
    pub link: Option<f64>,
    /// Smallest size, in bytes, from which on cuMemcpy costs less, and what it then is.
    pub crossover: Option<(f64, &'static str)>,
}

impl Panel {
    /// Lines alone.
    pub fn new(title: String, what: What, lines: Vec<Line>) -> Self {
        Self { title, what, lines, link: None, crossover: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub stroke: Stroke,
    /// For example `mapping, from NUMA node 1`.
    pub label: String,
    /// Bytes, and GB/s or microseconds, by size.
    pub points: Vec<(f64, f64)>,
}

/// What the axes show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// GB/s over size.
    Bandwidth,
    /// Microseconds over size.
    Latency,
    /// Samples over microseconds.
    Histogram,
}

/// The stroke of a line of [`crate::model::figure`].
pub fn stroke(line: usize) -> Stroke {
    match line {
        0 => Stroke::Limit,
        1 => Stroke::First,
        2 => Stroke::Second,
        3 => Stroke::Third,
        4 => Stroke::Fourth,
        _ => Stroke::Fifth,
    }
}

/// The line of a figure, if it is drawn.
pub fn drawn(report: &ProbeReport, subject: &str, figure: FigureKind) -> Option<Line> {
    let (number, label) = figure.line?;
    Some(line(report, subject, figure.name, stroke(number), label))
}

/// The line of the results with this name.
pub fn line(report: &ProbeReport, subject: &str, name: &str, stroke: Stroke, label: &str) -> Line {
    let is_point = |result: &&ProbeResult| result.subject == subject && result.name == name;
    let mut points: Vec<(f64, f64)> = report
        .results
        .iter()
        .filter(is_point)
        .filter_map(|result| {
            Some((result.bytes? as f64, result.median.filter(|median| *median > 0.0)?))
        })
        .collect();
    points.order_by(|a, b| a.0.total_cmp(&b.0));
    // Keep the first NUMA node, which is the GPU's.
    points.dedup_by(|a, b| a.0 == b.0);
    Line { stroke, label: label.to_owned(), points }
}
