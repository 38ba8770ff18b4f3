//! The links of a fleet as a drawing: one cell a pair, from and to.

use std::fmt::Write as _;

use crate::model::HeatMap;
use crate::render::svg::{escape, start};

const CELL: usize = 14;
/// Width of a character of a name.
const LETTER: usize = 7;
const FOOT: usize = 40;
/// Width of an entry of the scale.
const SCALE_WIDTH: usize = 105;
/// Most characters of a name.
const LONGEST: usize = 22;

/// Shares and colours, the worst first. The colours differ in lightness too.
const SCALE: [(f64, &str, &str); 6] = [
    (0.5, "#67001f", "below 50 %"),
    (0.7, "#b2182b", "50 to 70 %"),
    (0.85, "#ef8a62", "70 to 85 %"),
    (0.95, "#fddbc7", "85 to 95 %"),
    (1.05, "#d1e5f0", "usual"),
    (f64::MAX, "#4393c3", "above 105 %"),
];

pub fn heat_map(heat: &HeatMap) -> String {
    let side = heat.names.len() * CELL;
    let longest = heat.names.iter().map(|name| name.chars().count().min(LONGEST)).max();
    let names = longest.unwrap_or(0) * LETTER + 16;
    let (width, height) =
        ((names + side + 20).max(SCALE_WIDTH * SCALE.len() + 20), names + side + FOOT);
    let mut svg = start(width, height, "Bandwidth of each pair as a share of the usual");
    for (at, name) in heat.names.iter().enumerate() {
        let middle = names + at * CELL + CELL - 4;
        let name = escape(&shortened(name));
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{middle}\" font-size=\"11\" text-anchor=\"end\" fill=\"#1f2328\">{name}</text>",
            names - 6
        );
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" font-size=\"11\" fill=\"#1f2328\" transform=\"rotate(-90 {middle} {})\">{name}</text>",
            names - 6,
            names - 6
        );
    }
    for (from, row) in heat.cells.iter().enumerate() {
        for (to, cell) in row.iter().enumerate() {
            let Some(share) = cell else {
                continue;
            };
            let (_, colour, _) =
                SCALE.iter().find(|(below, ..)| share < below).unwrap_or(&SCALE[5]);
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{colour}\"><title>{} to {}: {:.0} %</title></rect>",
                names + to * CELL,
                names + from * CELL,
                CELL - 1,
                CELL - 1,
                escape(&heat.names[from]),
                escape(&heat.names[to]),
                share * 100.0
            );
        }
    }
    for (at, (_, colour, words)) in SCALE.iter().enumerate() {
        let (x, y) = (10 + at * SCALE_WIDTH, names + side + 14);
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{colour}\"/>"
        );
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#1f2328\">{words}</text>",
            x + CELL + 4,
            y + CELL - 3
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn shortened(name: &str) -> String {
    match name.chars().count() {
        ..=LONGEST => name.to_owned(),
        _ => name.chars().take(LONGEST - 1).chain(['\u{2026}']).collect(),
    }
}
