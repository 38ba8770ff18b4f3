//! The topology for people: the matrix, its legend, the pairs and what they are worth.

use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::text::{Tone, bandwidth, printable};
use super::{Style, View};
use crate::model::{Fact, Kind, Match, Row, Why};
use crate::topo::{between, redirects, verb};

/// The whole page.
pub fn text(view: &View<'_>) -> String {
    let mut page = String::new();
    if view.topology.rows.is_empty() {
        page.push_str(&nothing(view));
        return page;
    }
    page.push_str(&matrix(view));
    page.push('\n');
    page.push_str(&legend(view));
    page.push('\n');
    page.push_str(&pairing(view));
    for remark in remarks(view) {
        page.push_str(&format!("\n{}\n", printable(&remark)));
    }
    page
}

fn nothing(view: &View<'_>) -> String {
    let devices = view.facts.devices().len();
    let nvlinks = match devices {
        0 => "No PCI devices were found".to_owned(),
        _ => format!("No NVIDIA GPU and no RDMA device among {devices} PCI devices"),
    };
    format!("{nvlinks}.\n")
}

fn matrix(view: &View<'_>) -> String {
    let rows = &view.topology.rows;
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let ends = ["CPUs", "NUMA", "Address", "Device"];
    table.set_header(
        std::iter::once(String::new())
            .chain(rows.iter().map(|row| row.name.clone()))
            .chain(ends.map(str::to_owned)),
    );
    for (at, row) in rows.iter().enumerate() {
        let cells = (0..rows.len()).map(|other| match at == other {
            true => "X".to_owned(),
            false => view.cell(at, other).unwrap_or_else(|| "?".to_owned()),
        });
        let numa = match &row.numa {
            Fact::Known(Some(node)) => node.to_string(),
            Fact::Known(None) => "-".to_owned(),
            Fact::Unknown(_) => "?".to_owned(),
        };
        table.add_row(std::iter::once(row.name.clone()).chain(cells).chain([
            row.cpus.known().map_or_else(|| "?".to_owned(), ToString::to_string),
            numa,
            row.bdf.map_or_else(|| "-".to_owned(), |bdf| bdf.to_string()),
            device(view, row),
        ]));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
        column.set_cell_alignment(CellAlignment::Left);
    }
    let plain = table.to_string();
    let painted: Vec<String> = plain
        .lines()
        .enumerate()
        .map(|(at, line)| paint_line(view.style, at == 0, line.trim_end(), rows.len()))
        .collect();
    painted.join("\n") + "\n"
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
    let cells: Vec<Option<String>> = (0..rows)
        .flat_map(|a| (a + 1..rows).map(move |b| (a, b)))
        .map(|(a, b)| view.cell(a, b))
        .collect();
    let not_known = match is_of_a_dump(view) {
        true => {
            "this source does not tell: lspci -vvv of the whole machine, as root, tells more; a snapshot of it (gdr \
             snapshot) tells all"
        }
        false => "not known: see gdr topo --verbose",
    };
    let is = |cell: &Option<String>, name: &str| match cell {
        Some(cell) if name == "NV#" => cell.starts_with("NV"),
        Some(cell) => cell == name,
        None => name == "?",
    };
    [
        ("NV#", "that many NVLinks"),
        ("PIX", "at most one PCIe bridge between them"),
        ("PXB", "several PCIe bridges, but not the host bridge"),
        ("PHB", "through one PCIe host bridge (the CPU)"),
        ("NODE", "between host bridges of one NUMA node"),
        ("SYS", "across the interconnect between NUMA nodes"),
        ("?", not_known),
    ]
    .iter()
    .filter(|(name, _)| cells.iter().any(|cell| is(cell, name)))
    .map(|(name, meaning)| {
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

/// Whether a pair is unknown because the source is a text that says nothing of bridges or NUMA nodes.
fn is_of_a_dump(view: &View<'_>) -> bool {
    let no_nodes = view.facts.numa.why() == Some(Why::NotCovered);
    let mut pairs = view.topology.pairs.iter().flatten();
    no_nodes && pairs.any(|pair| pair.pci.why() == Some(Why::NotCovered))
}

fn pairing(view: &View<'_>) -> String {
    let rows = &view.topology.rows;
    let of = |kind: Kind| view.topology.matches.iter().filter(move |m| rows[m.row].kind == kind);
    let mut text = String::new();
    for m in of(Kind::Gpu) {
        text.push_str(&one(view, m));
    }
    let chosen: Vec<usize> = of(Kind::Gpu).flat_map(|m| m.best.iter().copied()).collect();
    // The reverse says something new only of NICs that are no GPU's best.
    for m in of(Kind::Nic).filter(|m| !chosen.contains(&m.row)) {
        text.push_str(&one(view, m));
    }
    text
}

fn one(view: &View<'_>, m: &Match) -> String {
    let rows = &view.topology.rows;
    let row = &rows[m.row];
    let verdict = view.style.paint(Tone::of_verdict(m.verdict), m.verdict.phrase());
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
    if let Ok(path) = between(view.facts, view.forest, view.topology, m.row, pick) {
        if let Some(narrow) = path.bottleneck.known() {
            text.push_str(&format!("; {} at {}", bandwidth(narrow.bytes_per_second), narrow.below));
            if !narrow.shared_with.is_empty() {
                text.push_str(&format!(", shared with {}", narrow.shared_with.join(" ")));
            }
        }
        for redirect in redirects(view.forest, &path) {
            if let Some(bits) = redirect.bits.known().filter(|bits| !bits.is_empty()) {
                let what = format!("ACS at {} {} it: {}", redirect.port, verb(bits), bits.join(" "));
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

/// The reason without the names that the line begins with.
fn tail(reason: &str) -> &str {
    reason.split_once(": ").map_or(reason, |(_, tail)| tail)
}

/// What a reader should know of how this was read.
fn remarks(view: &View<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    let gpus = view.topology.rows_of(Kind::Gpu).count();
    if gpus > 1 && view.facts.nvml().is_none() && !view.pci_only {
        let why = view
            .facts
            .notes
            .iter()
            .find(|note| note.source == "NVML")
            .map_or_else(|| "NVML was not read".to_owned(), |note| note.message.clone());
        remarks.push(format!(
            "NVLinks are not known ({why}): GPU pairs show their PCI class."
        ));
    }
    let managed: Vec<_> = view
        .topology
        .rows_of(Kind::Gpu)
        .filter_map(|(_, row)| row.bdf)
        .collect();
    let others: Vec<String> = view
        .facts
        .gpus()
        .filter(|device| !managed.contains(&device.bdf))
        .map(|device| {
            let driver = device.attributes.as_ref().and_then(|a| a.driver.present().cloned());
            format!("{} ({})", device.bdf, driver.unwrap_or_else(|| "no driver".to_owned()))
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
