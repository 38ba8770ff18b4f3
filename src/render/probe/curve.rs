//! Bandwidth over size in the terminal: log-log, with a different mark per line, so that it is readable without
//! colour.

use super::chart::{Axes, limit, panels};
use super::panel::Panel;
use super::{opening, size};
use crate::model::ProbeReport;
use crate::render::Style;
use crate::render::svg::Stroke;
use crate::render::text::{Tone, printable, wrap};

/// Rows of a panel.
const HEIGHT: usize = 16;
/// Columns before the axis: `100 GB/s `.
const LEFT: usize = 10;
/// Maximum width of a panel.
const MAX_WIDTH: usize = 90;

/// The curves of a report.
pub fn curve(report: &ProbeReport, style: Style) -> String {
    let mut page = opening(report, style);
    let panels = panels(report);
    for panel in &panels {
        let axes = Axes::of(&panels, panel.what);
        page.push('\n');
        page.push_str(&draw(panel, &axes, style));
    }
    if panels.is_empty() {
        page.push_str("\nNothing was measured.\n");
    }
    for note in &report.notes {
        page.push_str(&format!("\n{}\n", wrap(&printable(note), style.width, 0, "")));
    }
    page
}

fn mark(stroke: Stroke) -> (char, Tone) {
    match stroke {
        Stroke::First => ('●', Tone::Good),
        Stroke::Second => ('◌', Tone::Special),
        Stroke::Third => ('+', Tone::Fair),
        Stroke::Fourth => ('·', Tone::Dim),
        Stroke::Fifth => ('x', Tone::Bad),
        Stroke::Limit => ('-', Tone::Dim),
    }
}

fn draw(panel: &Panel, axes: &Axes, style: Style) -> String {
    let width = style.width.clamp(LEFT + 20, MAX_WIDTH) - LEFT - 1;
    let mut grid: Vec<Vec<Option<(char, Tone)>>> = vec![vec![None; width]; HEIGHT];
    let mut put = |x: f64, y: f64, what: (char, Tone)| {
        let (column, row) = ((x * (width - 1) as f64).round(), (y * (HEIGHT - 1) as f64).round());
        if let Some(cell) = grid.get_mut(row as usize).and_then(|row| row.get_mut(column as usize))
        {
            *cell = Some(what);
        }
    };
    if let Some(link) = panel.link {
        let y = axes.place((1.0, link)).1;
        (0..width)
            .for_each(|column| put(column as f64 / (width - 1) as f64, y, mark(Stroke::Limit)));
    }
    for line in &panel.lines {
        let places: Vec<(f64, f64)> = line.points.iter().map(|point| axes.place(*point)).collect();
        for pair in places.windows(2) {
            let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
            let steps = ((x1 - x0) * width as f64).ceil().max(1.0) as usize;
            for step in 0..=steps {
                let share = step as f64 / steps as f64;
                put(x0 + (x1 - x0) * share, y0 + (y1 - y0) * share, mark(line.stroke));
            }
        }
        if let [(x, y)] = places[..] {
            put(x, y, mark(line.stroke));
        }
    }
    let mut text = format!("{}\n", style.paint(Tone::Strong, &printable(&panel.title)));
    for (at, row) in grid.iter().enumerate() {
        let cells: String = row.iter().map(|cell| cell.map_or(' ', |(mark, _)| mark)).collect();
        let painted = if style.color {
            row.iter().map(|cell| paint(*cell, style)).collect()
        } else {
            cells.trim_end().to_owned()
        };
        let line = format!("{:>LEFT$}│{painted}", tick(axes, at));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&format!("{:>LEFT$}└{}\n", "", "─".repeat(width)));
    let (low, high) = (axes.right(axes.x.0), axes.right(axes.x.1));
    let gap = width.saturating_sub(low.len() + high.len());
    text.push_str(&format!("{:>LEFT$} {low}{}{high}\n", "", " ".repeat(gap)));
    text.push_str(&legend(panel, style));
    text
}

/// Each decade has a label in its row.
fn tick(axes: &Axes, row: usize) -> String {
    let at = |exponent: i32| {
        let y = axes.place((1.0, 10_f64.powi(exponent))).1;
        (y * (HEIGHT - 1) as f64).round() as usize
    };
    let found = (axes.y.0..=axes.y.1).rev().find(|exponent| at(*exponent) == row);
    found.map_or_else(String::new, |exponent| format!("{} ", axes.up(exponent)))
}

fn paint(cell: Option<(char, Tone)>, style: Style) -> String {
    cell.map_or_else(|| " ".to_owned(), |(mark, tone)| style.paint(tone, &mark.to_string()))
}

fn legend(panel: &Panel, style: Style) -> String {
    let mut text = String::new();
    let mut add = |mark: char, tone: Tone, words: &str| {
        let mark = style.paint(tone, &mark.to_string());
        let words = wrap(words, style.width, LEFT + 3, &" ".repeat(LEFT + 3));
        text.push_str(&format!("{:>LEFT$} {mark} {words}\n", ""));
    };
    for line in panel.lines.iter().rev() {
        let (mark, tone) = mark(line.stroke);
        add(mark, tone, &line.label);
    }
    if let Some(link) = panel.link {
        add('-', Tone::Dim, &limit(link));
    }
    if let Some((bytes, better)) = panel.crossover {
        let words = format!("cuMemcpy with pinned memory {better} from {} on", size(bytes as u64));
        add(' ', Tone::Dim, &words);
    }
    text
}
