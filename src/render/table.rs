//! The topology for people: the matrix, its legend, the pairs and their ratings.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::text::{Tone, bandwidth, printable, wrap};
use super::{Cell, View, matrix};
use crate::model::{Bdf, Fact, Kind, Match, PciClass, Why};
use crate::topo::{narrowest, redirects, verb};

pub fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    if view.topology.rows.is_empty() {
        return out.write_all(nothing(view).as_bytes());
    }
    matrix::write(view, out)?;
    out.write_all(b"\n")?;
    if view.topology.has_all_pairs() {
        out.write_all(legend(view).as_bytes())?;
        out.write_all(b"\n")?;
    }
    pairing(view, out)?;
    for remark in remarks(view) {
        writeln!(
            out,
            "\n{}",
            wrap(&printable(&remark), view.style.width, 0, "")
        )?;
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

/// The classes that occur, nearest first.
fn legend(view: &View<'_>) -> String {
    let rows = view.topology.rows.len();
    let mut seen = Seen::default();
    for a in 0..rows {
        for b in a + 1..rows {
            seen.add(view, a, b);
        }
    }
    let not_known = match seen.not_covered {
        true => {
            "unknown in this source: use lspci -vvv of the whole machine as root, or better a snapshot (gdr \
             snapshot)"
        }
        false => "unknown: see gdr topo --verbose",
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
        let meaning = wrap(meaning, view.style.width, 8, &" ".repeat(8));
        format!("  {name} {meaning}\n")
    })
    .collect()
}

/// What the matrix contains.
#[derive(Default)]
struct Seen {
    nvlinks: bool,
    classes: BTreeSet<PciClass>,
    unknown: bool,
    /// A class is unknown because the source lacks bridges or NUMA nodes.
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
    // The reverse direction adds information only for NICs that are not the best of a GPU.
    for m in of(Kind::Nic).filter(|m| !chosen.contains(&m.row)) {
        out.write_all(one(view, m).as_bytes())?;
    }
    Ok(())
}

fn one(view: &View<'_>, m: &Match) -> String {
    let rows = &view.topology.rows;
    let row = &rows[m.row];
    let Some(pick) = m.pick else {
        let begin = format!("{}: ", row.name);
        return judged(view, &begin, m, &format!(": {}", m.reason)) + &advice(view, m);
    };
    let others: Vec<&str> = m
        .best
        .iter()
        .filter(|at| **at != pick)
        .map(|at| rows[*at].name.as_str())
        .collect();
    let also = match others.is_empty() {
        true => String::new(),
        false => format!(" (equally near: {})", others.join(" ")),
    };
    let begin = format!("{} -> {}{also}: ", row.name, rows[pick].name);
    let mut rest = format!(": {}", tail(&m.reason));
    let mut text = String::new();
    if let Ok(path) = view.topology.route(m.row, pick) {
        if let Fact::Known(narrow) = narrowest(&path) {
            rest.push_str(&format!(
                "; {} at {}",
                bandwidth(narrow.bytes_per_second),
                narrow.below
            ));
            rest.push_str(&shared(view, narrow.below, [m.row, pick]));
        }
        for redirect in redirects(view.forest, &path) {
            if let Some(bits) = redirect.bits.known().filter(|bits| !bits.is_empty()) {
                let what = format!(
                    "ACS at {} {} it: {}",
                    redirect.port,
                    verb(*bits),
                    bits.names().join(" ")
                );
                let what = wrap(&what, view.style.width, 2, "    ");
                text.push_str(&format!("  {}\n", view.style.paint(Tone::Bad, &what)));
            }
        }
    }
    text.push_str(&advice(view, m));
    judged(view, &begin, m, &rest) + &text
}

fn advice(view: &View<'_>, m: &Match) -> String {
    m.advice.as_ref().map_or_else(String::new, |advice| {
        let advice = wrap(&printable(advice), view.style.width, 2, "    ");
        format!("  {advice}\n")
    })
}

/// A line with a verdict; only the verdict is coloured.
fn judged(view: &View<'_>, begin: &str, m: &Match, rest: &str) -> String {
    let verdict = m.verdict.phrase();
    let line = wrap(
        &printable(&format!("{begin}{verdict}{rest}")),
        view.style.width,
        0,
        "  ",
    );
    let painted = view.style.paint(Tone::of_verdict(m.verdict), verdict);
    // A verdict of two words loses its colour if a line break divides it.
    format!(
        "{}\n",
        line.replacen(&format!("{verdict}: "), &format!("{painted}: "), 1)
    )
}

/// Other rows that use a link: the first names, and the number of others.
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

/// The reason without the names at the start of the line.
fn tail(reason: &str) -> &str {
    reason.split_once(": ").map_or(reason, |(_, tail)| tail)
}

/// Remarks on the sources.
fn remarks(view: &View<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    if !view.topology.has_all_pairs() {
        let omission = view.topology.omission().unwrap_or_default();
        remarks.push(format!(
            "No matrix: {omission}. The table shows the devices and one nearest partner each."
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
            "NVLinks are unknown ({why}): GPU pairs show their PCI class."
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
            "Not listed, because the NVIDIA driver does not manage them: {}.",
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
            "Management functions of NVSwitches, not NICs: {}.",
            management.join(", ")
        ));
    }
    remarks
}
