//! Bandwidth over size as panels of lines, independent of the output format.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::asynchronous::details;
use super::panel::{Line, Panel, What, drawn, line, stroke};
use super::{copy_chart, mpi, size, subjects, transfer};
use crate::model::Order as _;
use crate::model::figure::asynchronous::{MessageDriver, MessagePath, WORDS};
use crate::model::figure::host::HostMemoryKind;
use crate::model::figure::mpi::MessageMemory;
use crate::model::figure::{self, Direction, FigureKind};
use crate::model::{Bucket, ProbeKind, ProbeReport, ProbeResult, ProbedGpu, ProbedPair};
use crate::render::svg::Stroke;

/// The panels of a report that have points.
pub fn panels(report: &ProbeReport) -> Vec<Panel> {
    let mut panels = match report.probe {
        ProbeKind::Host => host(report),
        ProbeKind::P2p => p2p(report),
        ProbeKind::Rdma => of_subjects(report, &figure::rdma::BANDWIDTHS),
        ProbeKind::Mp => of_subjects(report, &figure::mp::BANDWIDTHS),
        ProbeKind::Mpi => ranks(report),
        ProbeKind::Transfer => transfer::panels(report),
        ProbeKind::Async => asynchronous(report),
        ProbeKind::Copy => copy_chart::panels(report),
    };
    panels.iter_mut().for_each(|panel| {
        panel.lines.retain(|line| !line.points.is_empty());
        panel.lines.order_by_key(|line| Reverse(line.stroke));
    });
    panels.retain(|panel| !panel.lines.is_empty());
    panels
}

/// Two per GPU: bandwidth by kind of host memory.
fn host(report: &ProbeReport) -> Vec<Panel> {
    let panel = |gpu: &ProbedGpu, direction: Direction| {
        let lines = HostMemoryKind::ALL.map(|kind| {
            let (name, label) = (kind.bandwidth(direction), format!("{} memory", kind.name()));
            line(report, &gpu.subject, &name, stroke(kind.line()), &label)
        });
        let title = format!("{}: {}", gpu.subject, direction.words());
        let link = gpu.link.map(|link| link as f64 / 1e9);
        Panel { link, ..Panel::new(title, What::Bandwidth, lines.to_vec()) }
    };
    let gpus = report.gpus.iter();
    gpus.flat_map(|gpu| Direction::BOTH.map(|direction| panel(gpu, direction))).collect()
}

/// One per ordered pair.
fn p2p(report: &ProbeReport) -> Vec<Panel> {
    let panel = |pair: &ProbedPair| {
        let lines = lines(report, &pair.subject, &figure::p2p::PAIRS);
        let link = pair.link.map(|link| link as f64 / 1e9);
        Panel { link, ..Panel::new(pair.subject.clone(), What::Bandwidth, lines) }
    };
    report.pairs.iter().map(panel).collect()
}

/// The lines of the figures that are drawn.
fn lines(report: &ProbeReport, subject: &str, figures: &[FigureKind]) -> Vec<Line> {
    figures.iter().filter_map(|figure| drawn(report, subject, *figure)).collect()
}

/// One for each subject.
fn of_subjects(report: &ProbeReport, figures: &[FigureKind]) -> Vec<Panel> {
    let panel = |subject: &str| {
        let lines = lines(report, subject, figures);
        let mut results = report.results.iter().filter(|result| result.subject == subject);
        let link = results.find_map(|result| result.expected);
        Panel { link, ..Panel::new(subject.to_owned(), What::Bandwidth, lines) }
    };
    subjects(report).into_iter().map(panel).collect()
}

/// Two per pair of ranks.
fn ranks(report: &ProbeReport) -> Vec<Panel> {
    let figures = [
        (MessageMemory::ALL.map(MessageMemory::latency), What::Latency, "half of the round trip"),
        (MessageMemory::ALL.map(MessageMemory::bandwidth), What::Bandwidth, "bandwidth"),
    ];
    let panels = |pair| {
        figures.map(|(figures, what, words)| {
            Panel::new(format!("{pair}: {words}"), what, lines(report, pair, &figures))
        })
    };
    mpi::pairs(report).into_iter().flat_map(panels).collect()
}

/// Per GPU: latency of words, of messages, and of messages between two processes, the latter of each size and kind.
fn asynchronous(report: &ProbeReport) -> Vec<Panel> {
    let mut panels = Vec::new();
    for gpu in &report.gpus {
        let results = || {
            let results = report.results.iter();
            results.filter(|result| result.subject == gpu.subject)
        };
        let lines = WORDS.iter().filter_map(|figure| {
            let (number, label) = figure.line?;
            let result = results().find(|result| result.name == figure.name);
            Some(latency(stroke(number), label, result))
        });
        panels.push(spread(gpu, "a stream reads a word", lines.collect()));
        for path in MessagePath::ALL {
            let drivers = MessageDriver::ALL;
            let kinds: BTreeSet<String> = results()
                .flat_map(|result| drivers.map(|driver| details(result, path, driver)))
                .flatten()
                .collect();
            for kind in &kinds {
                let title = match kinds.len() {
                    1 => path.title().to_owned(),
                    _ => format!("{}, {kind}", path.title()),
                };
                let lines = drivers.map(|driver| {
                    let is_it = |result: &&ProbeResult| {
                        details(result, path, driver).as_ref() == Some(kind)
                    };
                    let label = format!("driven by the {}", driver.words(path));
                    latency(stroke(driver.line()), &label, results().find(is_it))
                });
                panels.push(spread(gpu, &title, lines.to_vec()));
            }
        }
    }
    panels
}

fn spread(gpu: &ProbedGpu, title: &str, lines: Vec<Line>) -> Panel {
    Panel::new(format!("{}: {title}", gpu.subject), What::Histogram, lines)
}

/// The samples of a latency.
fn latency(stroke: Stroke, label: &str, result: Option<&ProbeResult>) -> Line {
    let buckets = result.map_or(&[][..], |result| &result.histogram);
    let middle = |bucket: &Bucket| ((bucket.from * bucket.to).sqrt(), bucket.samples as f64);
    Line { stroke, label: label.to_owned(), points: buckets.iter().map(middle).collect() }
}

/// Logarithmic axes: powers of two in x, powers of ten in y.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axes {
    pub what: What,
    /// Base-2 logarithms of the limits.
    pub x: (i32, i32),
    /// Base-10 logarithms of the limits.
    pub y: (i32, i32),
}

impl Axes {
    /// Axes that hold every point of the panels of one kind.
    pub fn of(panels: &[Panel], what: What) -> Self {
        let alike = || panels.iter().filter(|panel| panel.what == what);
        let points = || alike().flat_map(|panel| &panel.lines).flat_map(|line| &line.points);
        let rates = points().map(|point| point.1).chain(alike().filter_map(|panel| panel.link));
        let range = |logs: Vec<f64>| {
            let low = logs.iter().copied().fold(f64::INFINITY, f64::min).floor() as i32;
            let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).ceil() as i32;
            if logs.is_empty() { (0, 1) } else { (low, high.max(low + 1)) }
        };
        Self {
            what,
            x: range(points().map(|point| point.0.log2()).collect()),
            y: range(rates.map(f64::log10).collect()),
        }
    }

    /// Position within the panel, as fractions from the left and from the top.
    pub fn place(&self, (bytes, rate): (f64, f64)) -> (f64, f64) {
        let share =
            |value: f64, (low, high): (i32, i32)| (value - f64::from(low)) / f64::from(high - low);
        (share(bytes.log2(), self.x), 1.0 - share(rate.log10(), self.y))
    }
}

impl Axes {
    /// The label at a power of two.
    pub fn right(&self, exponent: i32) -> String {
        match self.what {
            What::Bandwidth | What::Latency => size(1 << exponent.clamp(0, 63)),
            What::Histogram => format!("{} us", 2_f64.powi(exponent)),
        }
    }

    /// The label at a power of ten.
    pub fn up(&self, exponent: i32) -> String {
        match self.what {
            What::Bandwidth => rate(exponent),
            What::Latency => time(exponent),
            What::Histogram => format!("{}", 10_f64.powi(exponent)),
        }
    }
}

/// A tick label for a rate: 10⁻³ GB/s is 1 MB/s.
fn rate(exponent: i32) -> String {
    match exponent {
        0.. => format!("{} GB/s", 10_f64.powi(exponent)),
        -3..=-1 => format!("{} MB/s", 10_f64.powi(exponent + 3)),
        -6..=-4 => format!("{} kB/s", 10_f64.powi(exponent + 6)),
        _ => format!("1e{exponent} GB/s"),
    }
}

/// A tick label for a time: 10³ us is 1 ms.
fn time(exponent: i32) -> String {
    match exponent {
        ..=2 => format!("{} us", 10_f64.powi(exponent)),
        3..=5 => format!("{} ms", 10_f64.powi(exponent - 3)),
        _ => format!("{} s", 10_f64.powi(exponent - 6)),
    }
}

pub fn limit(link: f64) -> String {
    format!("what the link carries, {link:.1} GB/s")
}
