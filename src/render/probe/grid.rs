//! Columns of figures, aligned to the right; the first column to the left.

use super::INDENT;
use crate::render::Style;
use crate::render::text::{Tone, printable};

/// A heading, column heads, and rows of the same width.
pub fn grid(title: &str, head: &[String], rows: &[Vec<String>], style: Style) -> String {
    // Cells name devices, and what another machine says of its own.
    let clean =
        |cells: &[String]| -> Vec<String> { cells.iter().map(|cell| printable(cell)).collect() };
    let (head, rows) = (
        &clean(head),
        &rows.iter().map(|row| clean(row)).collect::<Vec<_>>(),
    );
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .chain(head.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).enumerate();
        let text: String = cells
            .map(|(at, (cell, width))| match at {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            })
            .collect();
        text.trim_end().to_owned()
    };
    let mut text = format!("\n{INDENT}{}\n", style.paint(Tone::Strong, title));
    text.push_str(&format!(
        "{INDENT}{}\n",
        style.paint(Tone::Dim, &line(head))
    ));
    for row in rows {
        text.push_str(&format!("{INDENT}{}\n", line(row)));
    }
    text
}
