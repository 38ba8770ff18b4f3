//! Right-aligned columns of figures with a left-aligned first column. Columns that do not fit follow below.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::INDENT;
use crate::render::Style;
use crate::render::text::{Tone, blocks, printable, wrap};

const GAP: usize = 2;

/// A heading, column heads, and rows of the same width.
pub fn grid(title: &str, head: &[String], rows: &[Vec<String>], style: Style) -> String {
    // Cells may contain names that the other machine sent.
    let clean =
        |cells: &[String]| -> Vec<String> { cells.iter().map(|cell| printable(cell)).collect() };
    let (head, rows) = (&clean(head), &rows.iter().map(|row| clean(row)).collect::<Vec<_>>());
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widths = cells.chain(head.get(column)).map(|cell| cell.chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let Some((natural, figures)) = widths.split_first() else {
        return String::new();
    };
    let room = style.width.saturating_sub(INDENT.len());
    let all: usize = figures.iter().map(|width| width + GAP).sum();
    // The row names wrap before the figures are split, but keep half of the line.
    let first = (*natural).min(room.saturating_sub(all).max(room / 2));
    let title = wrap(&printable(title), style.width, INDENT.len(), INDENT);
    let mut text = format!("\n{INDENT}{}\n", style.paint(Tone::Strong, &title));
    for (at, block) in blocks(first, figures, GAP, room).into_iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let columns = |cells: &[String]| -> Vec<String> {
            let figures = cells.get(1..).unwrap_or_default();
            let figures = figures.get(block.clone()).unwrap_or_default();
            cells.iter().take(1).chain(figures).cloned().collect()
        };
        for (line, of_head) in lines(&columns(head), rows.iter().map(|row| columns(row)), first) {
            let line = if of_head { style.paint(Tone::Dim, &line) } else { line };
            text.push_str(&format!("{INDENT}{line}\n"));
        }
    }
    text
}

/// The lines of a block; true for lines of its head. The first column has a maximum width.
fn lines(
    head: &[String],
    rows: impl Iterator<Item = Vec<String>>,
    first: usize,
) -> Vec<(String, bool)> {
    let fixed = |width: usize| Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX));
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::MAX)
        .set_header(head)
        .add_rows(rows);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding(if at == 0 { (0, 0) } else { (2, 0) });
        match at {
            0 => column.set_constraint(ColumnConstraint::UpperBoundary(fixed(first))),
            _ => column.set_constraint(ColumnConstraint::ContentWidth),
        };
        if at > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.enumerate().map(|(at, line)| (line, at == 0)).collect()
}
