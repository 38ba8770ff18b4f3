//! The panels of `gdr probe copy`: bandwidth, and what a second of CPU time copies.

use std::collections::BTreeSet;

use super::panel::{DIRECTIONS, Line, Panel, What};
use crate::model::Order as _;
use crate::model::{MICROSECONDS, ProbeReport, ProbeResult, ProbedGpu};
use crate::render::svg::Stroke;

/// What divides the bytes of a copy. Both have the unit GB/s, so that they share their axes.
#[derive(Clone, Copy)]
enum Per {
    Time,
    CpuTime,
}

impl Per {
    fn microseconds(self, result: &ProbeResult) -> Option<f64> {
        match self {
            Self::Time => result.median,
            Self::CpuTime => result.cpu,
        }
    }
}

/// Four per GPU: each direction by time and by CPU time, of the mapping and the copy engine.
pub fn panels(report: &ProbeReport) -> Vec<Panel> {
    let mut panels = Vec::new();
    for gpu in &report.gpus {
        for (direction, words) in DIRECTIONS {
            let title = format!("{}: {words}", gpu.subject);
            panels.push(Panel {
                title: title.clone(),
                what: What::Bandwidth,
                lines: lines(report, gpu, direction, Per::Time),
                link: gpu.link.map(|link| link as f64 / 1e9),
                crossover: crossover(report, gpu, &format!("crossover.{direction}"))
                    .map(|bytes| (bytes, "is faster")),
            });
            panels.push(Panel {
                title: format!("{title}, per second of CPU time"),
                what: What::Bandwidth,
                lines: lines(report, gpu, direction, Per::CpuTime),
                link: None,
                crossover: crossover(report, gpu, &format!("crossover.{direction}.cpu"))
                    .map(|bytes| (bytes, "uses less CPU time")),
            });
        }
    }
    panels
}

fn crossover(report: &ProbeReport, gpu: &ProbedGpu, name: &str) -> Option<f64> {
    let is_found = |result: &&ProbeResult| {
        result.subject == gpu.subject && result.name == name && result.median.is_some()
    };
    report.results.iter().find(is_found)?.median
}

fn lines(report: &ProbeReport, gpu: &ProbedGpu, direction: &str, per: Per) -> Vec<Line> {
    let subject = gpu.subject.as_str();
    let mapped = format!("copy.{direction}.latency");
    let nodes: BTreeSet<Option<u32>> = report
        .results
        .iter()
        .filter(|result| result.subject == subject && result.name == mapped)
        .map(|result| result.numa)
        .collect();
    // Prefer the GPU's own node, else the first with a line.
    let local = nodes.iter().find(|node| **node == gpu.numa).or(nodes.first()).copied();
    let mut lines: Vec<Line> = Vec::new();
    for (stroke, kind) in [(Stroke::Fourth, "pageable"), (Stroke::Third, "pinned")] {
        let name = format!("cuda.{kind}.{direction}.latency");
        lines.push(Line {
            stroke,
            label: format!("cuMemcpy, {kind} memory"),
            points: points(report, subject, &name, local.flatten(), per),
        });
    }
    for node in nodes.iter().rev() {
        let is_near = Some(*node) == local;
        let label = match node {
            Some(node) if nodes.len() > 1 => format!("mapping, from NUMA node {node}"),
            _ => "mapping".to_owned(),
        };
        lines.push(Line {
            stroke: if is_near { Stroke::First } else { Stroke::Second },
            label,
            points: points(report, subject, &mapped, *node, per),
        });
    }
    lines
}

fn points(
    report: &ProbeReport,
    subject: &str,
    name: &str,
    numa: Option<u32>,
    per: Per,
) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = report
        .results
        .iter()
        .filter(|result| result.subject == subject && result.name == name && result.numa == numa)
        .filter(|result| result.unit == MICROSECONDS)
        .filter_map(|result| {
            Some((result.bytes? as f64, per.microseconds(result).filter(|time| *time > 0.0)?))
        })
        .map(|(bytes, microseconds)| (bytes, bytes / microseconds / 1e3))
        .collect();
    points.order_by(|a, b| a.0.total_cmp(&b.0));
    points
}
