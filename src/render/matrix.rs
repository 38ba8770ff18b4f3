//! The matrix of a topology: the path class of each pair of rows, followed by location and name.

use std::io::{self, Write};
use std::ops::Range;

use super::text::{Tone, blocks, printable, wrap};
use super::{Style, View};
use crate::model::{Fact, Row};

/// The columns after the cells.
const ENDS: [&str; 4] = ["CPUs", "NUMA", "Address", "Device"];

/// Left-aligned rows and columns, two spaces between columns. With too many rows, only the devices. Columns that do
/// not fit follow below: first the cells, then the devices.
pub fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = &view.topology.rows;
    let cells = if view.topology.has_all_pairs() {
        rows.len()
    } else {
        0
    };
    // Each column is as wide as its widest text. Texts are not stored: a matrix may have a million.
    let name = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut widths: Vec<usize> = rows.iter().take(cells).map(|row| row.name.len()).collect();
    let mut ends = ENDS.map(str::len);
    for (at, row) in rows.iter().enumerate() {
        for (other, width) in widths.iter_mut().enumerate() {
            *width = cell(view, at, other).len().max(*width);
        }
        for (width, text) in ends.iter_mut().zip(&end(view, row)) {
            *width = text.chars().count().max(*width);
        }
    }
    let sum = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
    let room = view.style.width;
    if name + sum(&widths) + sum(&ends) <= room {
        return block(view, name, Some((0..cells, &widths)), Some(ends), out);
    }
    for columns in blocks(name, &widths, GAP, room) {
        block(
            view,
            name,
            Some((columns.clone(), &widths[columns])),
            None,
            out,
        )?;
        out.write_all(b"\n")?;
    }
    // Lists of CPUs are cut; the device name wraps in the remaining space.
    ends[0] = ends[0].min(room / 4);
    ends[3] = ends[3]
        .min(room.saturating_sub(name + sum(&ends[..3]) + GAP))
        .max(MIN_WIDTH);
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
    let (columns, widths) = cells.unwrap_or((0..0, &[]));
    let mut line = String::new();
    let put = |line: &mut String, text: &str, width: usize| {
        line.push_str(text);
        line.extend(std::iter::repeat_n(
            ' ',
            width.saturating_sub(text.chars().count()) + GAP,
        ));
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
    writeln!(
        out,
        "{}",
        paint_line(view.style, true, line.trim_end(), columns.len())
    )?;
    for (at, row) in rows.iter().enumerate() {
        line.clear();
        put(&mut line, &row.name, name);
        for (other, width) in columns.clone().zip(widths) {
            put(&mut line, &cell(view, at, other), *width);
        }
        if let Some(ends) = ends {
            let [cpus, numa, address, device] = end(view, row);
            put(&mut line, &cut(cpus, ends[0]), ends[0]);
            put(&mut line, &numa, ends[1]);
            put(&mut line, &address, ends[2]);
            let start = line.chars().count();
            line.push_str(&wrap(&device, start + ends[3], start, &" ".repeat(start)));
        }
        writeln!(
            out,
            "{}",
            paint_line(view.style, false, line.trim_end(), columns.len())
        )?;
    }
    Ok(())
}

/// The cell of two rows.
fn cell(view: &View<'_>, a: usize, b: usize) -> String {
    match a == b {
        true => "X".to_owned(),
        false => view
            .cell(a, b)
            .map_or_else(|| "?".to_owned(), |cell| cell.to_string()),
    }
}

/// Cuts a text to a number of characters.
fn cut(text: String, width: usize) -> String {
    match text.chars().count() > width {
        true => text
            .chars()
            .take(width.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => text,
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
        row.cpus
            .known()
            .map_or_else(|| "?".to_owned(), ToString::to_string),
        numa,
        row.bdf
            .map_or_else(|| "-".to_owned(), |bdf| bdf.to_string()),
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

/// Colours the first words of a line: its name and its cells. Spaces are kept.
fn paint_line(style: Style, header: bool, line: &str, cells: usize) -> String {
    if header {
        return style.paint(Tone::Strong, line);
    }
    let mut out = String::new();
    let mut words = 0;
    for part in line.split_inclusive(' ') {
        let word = part.trim_end_matches(' ');
        let tone = match word {
            "" => None,
            _ if words == 0 => Some(Tone::Strong),
            _ if words <= cells => Tone::of_cell(word),
            _ => None,
        };
        words += usize::from(!word.is_empty());
        match tone {
            Some(tone) => {
                out.push_str(&style.paint(tone, word));
                out.push_str(&part[word.len()..]);
            }
            None => out.push_str(part),
        }
    }
    out
}
