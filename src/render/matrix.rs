//! The matrix of a topology: the path class of each pair with a GPU, or of each pair, and then location and name of the devices.

use std::io::{self, Write};
use std::ops::Range;

use super::View;
use super::text::{Tone, blocks, printable, wrap};
use crate::model::{Fact, Kind, Row};

/// The columns after the cells.
const ENDS: [&str; 4] = ["CPUs", "NUMA", "Address", "Device"];

/// The rows that have cells: the GPUs, which come first, or all if there is no GPU.
pub fn rows(view: &View<'_>) -> usize {
    let rows = view.topology.rows.len();
    match view.topology.rows_of(Kind::Gpu).count() {
        _ if !view.topology.has_all_pairs() => 0,
        0 => rows,
        _ if view.all => rows,
        gpus => gpus,
    }
}

/// Left-aligned rows and columns, two spaces between columns. With too many rows, only the devices. Columns that do
/// not fit follow below: first the cells, then the devices.
pub fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = &view.topology.rows;
    let with_cells = self::rows(view);
    let cells = if view.topology.has_all_pairs() { rows.len() } else { 0 };
    // Each column is as wide as its widest text. Texts are not stored: a matrix may have a million.
    let name = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut widths: Vec<usize> = rows.iter().take(cells).map(|row| row.name.len()).collect();
    let mut ends = ENDS.map(str::len);
    for (at, row) in rows.iter().enumerate() {
        for (other, width) in widths.iter_mut().enumerate().filter(|_| at < with_cells) {
            *width = cell(view, at, other).len().max(*width);
        }
        for (width, text) in ends.iter_mut().zip(&end(view, row)) {
            *width = text.chars().count().max(*width);
        }
    }
    let sum = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
    let room = view.style.width;
    if with_cells == rows.len() && name + sum(&widths) + sum(&ends) <= room {
        return block(view, name, Some((0..cells, &widths)), Some(ends), out);
    }
    for columns in blocks(name, &widths, GAP, room) {
        block(view, name, Some((columns.clone(), &widths[columns])), None, out)?;
        out.write_all(b"\n")?;
    }
    // Lists of CPUs are cut; the device name wraps in the remaining space.
    ends[0] = ends[0].min(room / 4);
    ends[3] = ends[3].min(room.saturating_sub(name + sum(&ends[..3]) + GAP)).max(MIN_WIDTH);
    block(view, name, None, Some(ends), out)
}

const GAP: usize = 2;

/// Minimum width of the column of device names.
const MIN_WIDTH: usize = 12;

/// Some columns of cells, the columns after them, or both.
fn block(
    view: &View<'_>,
    name: usize,
    cells: Option<(Range<usize>, &[usize])>,
    ends: Option<[usize; 4]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows = &view.topology.rows;
    let shown = match cells {
        Some(_) => self::rows(view),
        None => rows.len(),
    };
    let (columns, widths) = cells.unwrap_or((0..0, &[]));
    let mut line = String::new();
    let gap =
        |text: &str, width: usize| " ".repeat(width.saturating_sub(text.chars().count()) + GAP);
    let put = |line: &mut String, text: &str, width: usize| {
        line.push_str(text);
        line.push_str(&gap(text, width));
    };
    put(&mut line, "", name);
    for (row, width) in rows[columns.clone()].iter().zip(widths) {
        put(&mut line, &row.name, *width);
    }
    for (text, width) in ENDS.iter().zip(ends.unwrap_or_default()) {
        if ends.is_some() {
            put(&mut line, text, width);
        }
    }
    writeln!(out, "{}", view.style.paint(Tone::Strong, line.trim_end()))?;
    for (at, row) in rows.iter().enumerate().take(shown) {
        line.clear();
        let paint = |tone: Option<Tone>, text: &str| match tone {
            Some(tone) => view.style.paint(tone, text),
            None => text.to_owned(),
        };
        line.push_str(&paint(Some(Tone::Strong), &row.name));
        line.push_str(&gap(&row.name, name));
        let mut start = name + GAP;
        for (other, width) in columns.clone().zip(widths) {
            let text = cell(view, at, other);
            line.push_str(&paint(view.tone(at, other), &text));
            line.push_str(&gap(&text, *width));
            start += width + GAP;
        }
        if let Some(ends) = ends {
            let [cpus, numa, address, device] = end(view, row);
            put(&mut line, &cut(cpus, ends[0]), ends[0]);
            put(&mut line, &numa, ends[1]);
            put(&mut line, &address, ends[2]);
            start += ends[..3].iter().map(|width| width + GAP).sum::<usize>();
            line.push_str(&wrap(&device, start + ends[3], start, &" ".repeat(start)));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The cell of two rows.
fn cell(view: &View<'_>, a: usize, b: usize) -> String {
    if a == b {
        "X".to_owned()
    } else {
        view.cell(a, b).map_or_else(|| "?".to_owned(), |cell| cell.to_string())
    }
}

/// Cuts a text to a number of characters.
fn cut(text: String, width: usize) -> String {
    if text.chars().count() > width {
        text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
    } else {
        text
    }
}

/// The columns after the cells of a row.
fn end(view: &View<'_>, row: &Row) -> [String; 4] {
    let numa = match &row.numa {
        Fact::Known(Some(node)) => node.to_string(),
        Fact::Known(None) => "-".to_owned(),
        Fact::Unknown(_) => "?".to_owned(),
    };
    [
        row.cpus.known().map_or_else(|| "?".to_owned(), ToString::to_string),
        numa,
        row.bdf.map_or_else(|| "-".to_owned(), |bdf| bdf.to_string()),
        device(view, row),
    ]
}

fn device(view: &View<'_>, row: &Row) -> String {
    let mut text = printable(&view.label(row));
    if row.software {
        text.push_str(" (software)");
    }
    if let Some(function) = row.virtual_function {
        text.push_str(&format!(" ({})", function.label()));
    }
    if row.active == Some(false) {
        text.push_str(" (down)");
    }
    text
}
