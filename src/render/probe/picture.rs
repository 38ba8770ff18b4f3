//! Bandwidth over size as a drawing: lines and texts. `svg` draws the chart.

use super::chart::{Axes, limit, panels};
use super::{SIMULATED, headline, size};
use crate::model::ProbeReport;
use crate::render::svg::{Chart, ChartLine, Stroke, chart};

/// Draws a report as an SVG document.
pub fn svg(report: &ProbeReport) -> String {
    let panels = panels(report);
    let charts: Vec<Chart> = panels
        .iter()
        .map(|panel| {
            let axes = Axes::of(&panels, panel.what);
            let lines = panel.lines.iter().map(|line| ChartLine {
                label: line.label.clone(),
                stroke: line.stroke,
                points: line.points.iter().map(|point| axes.place(*point)).collect(),
            });
            let link = panel.link.map(|link| ChartLine {
                label: limit(link),
                stroke: Stroke::Limit,
                points: [0.0, 1.0].map(|x| (x, axes.place((1.0, link)).1)).to_vec(),
            });
            let words = |bytes: f64| format!("cuMemcpy wins from {}", size(bytes as u64));
            Chart {
                title: panel.title.clone(),
                lines: link.into_iter().chain(lines).collect(),
                mark: panel.crossover.map(|(bytes, _)| (axes.place((bytes, 1.0)).0, words(bytes))),
                x_ticks: x_ticks(&axes),
                y_ticks: y_ticks(&axes),
            }
        })
        .collect();
    let mut remarks: Vec<String> =
        report.simulated.then(|| SIMULATED.to_owned()).into_iter().collect();
    remarks.extend(report.notes.iter().cloned());
    chart(&headline(report), &remarks, &charts)
}

fn x_ticks(axes: &Axes) -> Vec<(f64, String)> {
    (axes.x.0..=axes.x.1)
        .filter(|exponent| (exponent - axes.x.0) % 4 == 0)
        .map(|exponent| (axes.place((2_f64.powi(exponent), 1.0)).0, axes.right(exponent)))
        .collect()
}

fn y_ticks(axes: &Axes) -> Vec<(f64, String)> {
    (axes.y.0..=axes.y.1)
        .map(|exponent| (axes.place((1.0, 10_f64.powi(exponent))).1, axes.up(exponent)))
        .collect()
}
