//! The panels of `gdr probe copy`: bandwidth, and what a second of CPU time copies.

use std::collections::BTreeSet;

use super::panel::{Line, Panel, What, stroke};
use crate::model::Order as _;
use crate::model::figure::Direction;
use crate::model::figure::copy::{MAPPING, Quantity, WAYS};
use crate::model::{MICROSECONDS, ProbeReport, ProbeResult, ProbedGpu};

/// Four per GPU: each direction by time and by CPU time, of the mapping and the copy engine.
pub fn panels(report: &ProbeReport) -> Vec<Panel> {
    let mut panels = Vec::new();
    for gpu in &report.gpus {
        for direction in Direction::BOTH {
            for cost in Quantity::COSTS {
                let title = format!("{}: {}", gpu.subject, direction.words());
                let (title, link) = if cost == Quantity::CpuTime {
                    (format!("{title}, per second of CPU time"), None)
                } else {
                    (title, gpu.link.map(|link| link as f64 / 1e9))
                };
                panels.push(Panel {
                    title,
                    // Both have the unit GB/s, so that they share their axes.
                    what: What::Bandwidth,
                    lines: lines(report, gpu, direction, cost),
                    link,
                    crossover: crossover(report, gpu, &cost.crossover(direction))
                        .map(|bytes| (bytes, cost.better())),
                });
            }
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

fn lines(report: &ProbeReport, gpu: &ProbedGpu, direction: Direction, per: Quantity) -> Vec<Line> {
    let subject = gpu.subject.as_str();
    let mapped = MAPPING.latency(direction);
    let nodes: BTreeSet<Option<u32>> = report
        .results
        .iter()
        .filter(|result| result.subject == subject && result.name == mapped)
        .map(|result| result.numa)
        .collect();
    // Prefer the GPU's own node, else the first with a line.
    let local = nodes.iter().find(|node| **node == gpu.numa).or(nodes.first()).copied();
    let mut lines: Vec<Line> = Vec::new();
    for way in WAYS.into_iter().filter(|way| way.name != MAPPING.name) {
        let (line, label) = way.line;
        lines.push(Line {
            stroke: stroke(line),
            label: label.to_owned(),
            points: points(report, subject, &way.latency(direction), local.flatten(), per),
        });
    }
    let (line, mapping) = MAPPING.line;
    for node in nodes.iter().rev() {
        let is_near = Some(*node) == local;
        let label = match node {
            Some(node) if nodes.len() > 1 => format!("{mapping}, from NUMA node {node}"),
            _ => mapping.to_owned(),
        };
        lines.push(Line {
            stroke: stroke(if is_near { line } else { line + 1 }),
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
    per: Quantity,
) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = report
        .results
        .iter()
        .filter(|result| result.subject == subject && result.name == name && result.numa == numa)
        .filter(|result| result.unit == MICROSECONDS)
        .filter_map(|result| {
            Some((result.bytes? as f64, per.of(result).filter(|time| *time > 0.0)?))
        })
        .map(|(bytes, microseconds)| (bytes, bytes / microseconds / 1e3))
        .collect();
    points.order_by(|a, b| a.0.total_cmp(&b.0));
    points
}
