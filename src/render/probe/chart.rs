//! Bandwidth over size as lines, before anybody draws them.

use std::collections::BTreeSet;

use crate::model::{MICROSECONDS, ProbeReport};

/// One direction of one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// As in `GPU0 (0000:3b:00.0): to the GPU`.
    pub title: String,
    /// The lines, the most important last.
    pub lines: Vec<Line>,
    /// What the link carries, GB/s.
    pub link: Option<f64>,
    /// From this size on the copy engine wins.
    pub crossover: Option<f64>,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is.
    pub way: Way,
    /// As in `mapping, from NUMA node 1`.
    pub label: String,
    /// Bytes and GB/s, by size.
    pub points: Vec<(f64, f64)>,
}

/// How bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// cuMemcpy with pageable memory.
    Pageable,
    /// cuMemcpy with pinned memory.
    Pinned,
    /// Through the mapping, from CPUs of another NUMA node.
    Far,
    /// Through the mapping.
    Mapped,
}

/// The directions: the word in names, and that for people.
pub const DIRECTIONS: [(&str, &str); 2] = [("write", "to the GPU"), ("read", "from the GPU")];

/// The panels of a report: two for each GPU, those without a point left out.
pub fn panels(report: &ProbeReport) -> Vec<Panel> {
    let mut panels = Vec::new();
    for gpu in &report.gpus {
        for (direction, words) in DIRECTIONS {
            let lines = lines(report, &gpu.subject, direction);
            if lines.is_empty() {
                continue;
            }
            let crossover = report.results.iter().find(|result| {
                result.subject == gpu.subject
                    && result.name == format!("crossover.{direction}")
                    && result.median.is_some()
            });
            panels.push(Panel {
                title: format!("{}: {words}", gpu.subject),
                lines,
                link: gpu.link.map(|link| link as f64 / 1e9),
                crossover: crossover.and_then(|result| result.median),
            });
        }
    }
    panels
}

fn lines(report: &ProbeReport, subject: &str, direction: &str) -> Vec<Line> {
    let mapped = format!("copy.{direction}.latency");
    let nodes: BTreeSet<Option<u32>> = report
        .results
        .iter()
        .filter(|result| result.subject == subject && result.name == mapped)
        .map(|result| result.numa)
        .collect();
    let own = report
        .gpus
        .iter()
        .find(|gpu| gpu.subject == subject)
        .and_then(|gpu| gpu.numa);
    // The nearest node there is a line of: the GPU's own, else the first.
    let near = nodes.iter().find(|node| **node == own).or(nodes.first()).copied();
    let mut lines: Vec<Line> = Vec::new();
    for (way, kind) in [(Way::Pageable, "pageable"), (Way::Pinned, "pinned")] {
        let name = format!("cuda.{kind}.{direction}.latency");
        let points = points(report, subject, &name, near.flatten());
        lines.push(Line {
            way,
            label: format!("cuMemcpy, {kind} memory"),
            points,
        });
    }
    for node in nodes.iter().rev() {
        let is_near = Some(*node) == near;
        let label = match node {
            Some(node) if nodes.len() > 1 => format!("mapping, from NUMA node {node}"),
            _ => "mapping".to_owned(),
        };
        lines.push(Line {
            way: if is_near { Way::Mapped } else { Way::Far },
            label,
            points: points(report, subject, &mapped, *node),
        });
    }
    lines.retain(|line| !line.points.is_empty());
    lines.sort_by_key(|line| line.way);
    lines
}

fn points(report: &ProbeReport, subject: &str, name: &str, numa: Option<u32>) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = report
        .results
        .iter()
        .filter(|result| result.subject == subject && result.name == name && result.numa == numa)
        .filter(|result| result.unit == MICROSECONDS)
        .filter_map(|result| Some((result.bytes? as f64, result.median.filter(|median| *median > 0.0)?)))
        .map(|(bytes, microseconds)| (bytes, bytes / microseconds / 1e3))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Both axes, logarithmic: whole powers of two for sizes, of ten for GB/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axes {
    /// Base-2 logarithms of the smallest and the largest size.
    pub x: (i32, i32),
    /// Base-10 logarithms of the least and the most GB/s.
    pub y: (i32, i32),
}

impl Axes {
    /// Axes that hold every point of every panel.
    pub fn of(panels: &[Panel]) -> Self {
        let points = || {
            panels
                .iter()
                .flat_map(|panel| &panel.lines)
                .flat_map(|line| &line.points)
        };
        let rates = points()
            .map(|point| point.1)
            .chain(panels.iter().filter_map(|panel| panel.link));
        let range = |logs: Vec<f64>| {
            let low = logs.iter().copied().fold(f64::INFINITY, f64::min).floor() as i32;
            let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil() as i32;
            match logs.is_empty() {
                true => (0, 1),
                false => (low, high.max(low + 1)),
            }
        };
        Self {
            x: range(points().map(|point| point.0.log2()).collect()),
            y: range(rates.map(f64::log10).collect()),
        }
    }

    /// Where a point is within the panel: shares of its width from the left and of its height from the top.
    pub fn place(&self, (bytes, rate): (f64, f64)) -> (f64, f64) {
        let share = |value: f64, (low, high): (i32, i32)| (value - f64::from(low)) / f64::from(high - low);
        (share(bytes.log2(), self.x), 1.0 - share(rate.log10(), self.y))
    }
}

/// A rate of a tick: 10⁻³ GB/s is 1 MB/s.
pub fn rate(exponent: i32) -> String {
    match exponent {
        0.. => format!("{} GB/s", 10_f64.powi(exponent)),
        -3..=-1 => format!("{} MB/s", 10_f64.powi(exponent + 3)),
        -6..=-4 => format!("{} kB/s", 10_f64.powi(exponent + 6)),
        _ => format!("1e{exponent} GB/s"),
    }
}
