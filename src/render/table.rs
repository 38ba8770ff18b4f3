//! The topology for people: the matrix, its legend, the pairs and what they are worth.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::text::{Tone, bandwidth, printable};
use super::{Cell, Style, View};
use crate::model::{Bdf, Fact, Kind, Match, PciClass, Row, Why};
use crate::topo::{narrowest, redirects, verb};

pub fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    if view.topology.rows.is_empty() {
        return out.write_all(nothing(view).as_bytes());
    }
    matrix(view, out)?;
    out.write_all(b"\n")?;
    if view.topology.has_all_pairs() {
        out.write_all(legend(view).as_bytes())?;
        out.write_all(b"\n")?;
    }
    pairing(view, out)?;
    for remark in remarks(view) {
        writeln!(out, "\n{}", printable(&remark))?;
    }
    Ok(())
}

fn nothing(view: &View<'_>) -> String {
    let devices = view.facts.devices().len();
    let nvlinks = match devices {
        0 => "No PCI devices were found".to_owned(),
        _ => format!("No NVIDIA GPU and no RDMA device among {devices} PCI devices"),
    };
    format!("{nvlinks}.\n")
}

/// The columns behind the cells.
const ENDS: [&str; 4] = ["CPUs", "NUMA", "Address", "Device"];

/// Rows and columns, left aligned, two blanks between columns. Where there are too many rows, the devices without cells.
fn matrix(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = &view.topology.rows;
    let cells = if view.topology.has_all_pairs() {
        rows.len()
    } else {
        0
    };
    let text = |a: usize, b: usize| match a == b {
        true => "X".to_owned(),
        false => view
            .cell(a, b)
            .map_or_else(|| "?".to_owned(), |cell| cell.to_string()),
    };
    // Every column is as wide as its widest text. No text is kept: a matrix has a million.
    let name = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut widths: Vec<usize> = rows.iter().take(cells).map(|row| row.name.len()).collect();
    let mut ends = ENDS.map(str::len);
    for (at, row) in rows.iter().enumerate() {
        for (other, width) in widths.iter_mut().enumerate() {
            *width = text(at, other).len().max(*width);
        }
        for (width, text) in ends.iter_mut().zip(&end(view, row)) {
            *width = text.len().max(*width);
        }
    }
    let mut line = String::new();
    let put = |line: &mut String, text: &str, width: usize| {
        line.push_str(text);
        line.extend(std::iter::repeat_n(' ', width - text.len().min(width) + 2));
    };
    put(&mut line, "", name);
    for (row, width) in rows.iter().zip(&widths) {
        put(&mut line, &row.name, *width);
    }
    for (text, width) in ENDS.iter().zip(ends) {
        put(&mut line, text, width);
    }
    writeln!(
        out,
        "{}",
        paint_line(view.style, true, line.trim_end(), cells)
    )?;
    for (at, row) in rows.iter().enumerate() {
        line.clear();
        put(&mut line, &row.name, name);
        for (other, width) in widths.iter().enumerate() {
            put(&mut line, &text(at, other), *width);
        }
        for (text, width) in end(view, row).iter().zip(ends) {
            put(&mut line, text, width);
        }
        writeln!(
            out,
            "{}",
            paint_line(view.style, false, line.trim_end(), cells)
        )?;
    }
    Ok(())
}

/// What stands behind the cells of a row.
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
    if let Some(physical) = row.physical_function {
        text.push_str(&format!(" (virtual function of {physical})"));
    }
    if row.active == Some(false) {
        text.push_str(" (down)");
    }
    text
}

/// Colours the first words of a line: its name and its cells. Blanks stay as they are.
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

/// The classes that occur, nearest first.
fn legend(view: &View<'_>) -> String {
    let rows = view.topology.rows.len();
    let mut seen = Seen::default();
    for a in 0..rows {
        for b in a + 1..rows {
            seen.add(view, a, b);
        }
    }
    let no_nodes = view.facts.numa.why() == Some(Why::NotCovered);
    let not_known = match no_nodes && seen.not_covered {
        true => {
            "this source does not tell: lspci -vvv of the whole machine, as root, tells more; a snapshot of it (gdr \
             snapshot) tells all"
        }
        false => "not known: see gdr topo --verbose",
    };
    let class = |class: PciClass| (class.letters(), seen.classes.contains(&class));
    [
        (("NV#", seen.nvlinks), "that many NVLinks"),
        (class(PciClass::Pix), "at most one PCIe bridge between them"),
        (
            class(PciClass::Pxb),
            "several PCIe bridges, but not the host bridge",
        ),
        (
            class(PciClass::Phb),
            "through one PCIe host bridge (the CPU)",
        ),
        (
            class(PciClass::Node),
            "between host bridges of one NUMA node",
        ),
        (
            class(PciClass::Sys),
            "across the interconnect between NUMA nodes",
        ),
        (("?", seen.unknown), not_known),
    ]
    .iter()
    .filter(|((_, seen), _)| *seen)
    .map(|((name, _), meaning)| {
        let tone = if *name == "NV#" {
            Some(Tone::Special)
        } else {
            Tone::of_cell(name)
        };
        let padded = format!("{name:<5}");
        let name = tone.map_or(padded.clone(), |tone| view.style.paint(tone, &padded));
        format!("  {name} {meaning}\n")
    })
    .collect()
}

/// What occurs in the matrix.
#[derive(Default)]
struct Seen {
    nvlinks: bool,
    classes: BTreeSet<PciClass>,
    unknown: bool,
    /// A class is unknown because the source does not tell of bridges or NUMA nodes.
    not_covered: bool,
}

impl Seen {
    fn add(&mut self, view: &View<'_>, a: usize, b: usize) {
        match view.cell(a, b) {
            Some(Cell::NvLinks(_)) => self.nvlinks = true,
            Some(Cell::Class(class)) => {
                self.classes.insert(class);
            }
            Some(Cell::Same) | None => self.unknown = true,
        }
        let pair = view.topology.pair(a, b);
        self.not_covered |= pair.is_some_and(|pair| pair.pci.why() == Some(Why::NotCovered));
    }
}

fn pairing(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rows = &view.topology.rows;
    let of = |kind: Kind| {
        view.topology
            .matches
            .iter()
            .filter(move |m| rows[m.row].kind == kind)
    };
    for m in of(Kind::Gpu) {
        out.write_all(one(view, m).as_bytes())?;
    }
    let chosen: BTreeSet<usize> = of(Kind::Gpu).flat_map(|m| m.best.iter().copied()).collect();
    // The reverse says something new only of NICs that are no GPU's best.
    for m in of(Kind::Nic).filter(|m| !chosen.contains(&m.row)) {
        out.write_all(one(view, m).as_bytes())?;
    }
    Ok(())
}

fn one(view: &View<'_>, m: &Match) -> String {
    let rows = &view.topology.rows;
    let row = &rows[m.row];
    let verdict = view
        .style
        .paint(Tone::of_verdict(m.verdict), m.verdict.phrase());
    let Some(pick) = m.pick else {
        return format!("{}: {verdict}: {}\n", row.name, printable(&m.reason));
    };
    let others: Vec<&str> = m
        .best
        .iter()
        .filter(|at| **at != pick)
        .map(|at| rows[*at].name.as_str())
        .collect();
    let also = match others.is_empty() {
        true => String::new(),
        false => format!(" (as near: {})", others.join(" ")),
    };
    let mut text = format!(
        "{} -> {}{also}: {verdict}: {}",
        row.name,
        rows[pick].name,
        printable(tail(&m.reason))
    );
    if let Ok(path) = view.topology.route(m.row, pick) {
        if let Fact::Known(narrow) = narrowest(&path) {
            text.push_str(&format!(
                "; {} at {}",
                bandwidth(narrow.bytes_per_second),
                narrow.below
            ));
            text.push_str(&shared(view, narrow.below, [m.row, pick]));
        }
        for redirect in redirects(view.forest, &path) {
            if let Some(bits) = redirect.bits.known().filter(|bits| !bits.is_empty()) {
                let what = format!(
                    "ACS at {} {} it: {}",
                    redirect.port,
                    verb(bits),
                    bits.join(" ")
                );
                text.push_str(&format!("\n  {}", view.style.paint(Tone::Bad, &what)));
            }
        }
    }
    if let Some(advice) = &m.advice {
        text.push_str(&format!("\n  {}", printable(advice)));
    }
    text.push('\n');
    text
}

/// Who else's traffic goes over a link: the first names, and how many more there are.
fn shared(view: &View<'_>, below: Bdf, ends: [usize; 2]) -> String {
    const SHOWN: usize = 32;
    let rows = view.topology.sharers(below, ends).take(SHOWN);
    let names: Vec<&str> = rows.map(|row| row.name.as_str()).collect();
    let more = view.topology.sharer_count(below, ends) - names.len();
    match (names.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(", shared with {}", names.join(" ")),
        (false, more) => format!(", shared with {} and {more} more", names.join(" ")),
    }
}

/// The reason without the names that the line begins with.
fn tail(reason: &str) -> &str {
    reason.split_once(": ").map_or(reason, |(_, tail)| tail)
}

/// What a reader should know of how this was read.
fn remarks(view: &View<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if !view.topology.has_all_pairs() {
        let omission = view.topology.omission().unwrap_or_default();
        remarks.push(format!(
            "No matrix: {omission}. Shown are the devices and one nearest partner of each."
        ));
    }
    let gpus = view.topology.rows_of(Kind::Gpu).count();
    if gpus > 1 && view.facts.nvml().is_none() && !view.pci_only {
        let why = view
            .facts
            .notes
            .iter()
            .find(|note| note.source == "NVML")
            .map_or_else(
                || "NVML was not read".to_owned(),
                |note| note.message.clone(),
            );
        remarks.push(format!(
            "NVLinks are not known ({why}): GPU pairs show their PCI class."
        ));
    }
    let managed: BTreeSet<Bdf> = view
        .topology
        .rows_of(Kind::Gpu)
        .filter_map(|(_, row)| row.bdf)
        .collect();
    let others: Vec<String> = view
        .facts
        .gpus()
        .filter(|device| !managed.contains(&device.bdf))
        .map(|device| {
            let driver = device
                .attributes
                .as_ref()
                .and_then(|a| a.driver.present().cloned());
            format!(
                "{} ({})",
                device.bdf,
                driver.unwrap_or_else(|| "no driver".to_owned())
            )
        })
        .collect();
    if !others.is_empty() {
        remarks.push(format!(
            "Not managed by the NVIDIA driver, so not a row: {}.",
            others.join(", ")
        ));
    }
    let management: Vec<&str> = view
        .facts
        .rdma
        .known()
        .into_iter()
        .flatten()
        .filter(|device| device.management == Fact::Known(true))
        .map(|device| device.name.as_str())
        .collect();
    if !management.is_empty() {
        remarks.push(format!(
            "They manage NVSwitches and are no NICs: {}.",
            management.join(", ")
        ));
    }
    remarks
}
