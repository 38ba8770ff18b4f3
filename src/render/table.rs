//! The topology for people: the NIC of each GPU with its rating, then the matrix, its legend, the devices.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::nics::{Nics, has_unknown_nvlinks, limit, names};
use super::text::{Tone, printable, wrap};
use super::{Cell, View, matrix};
use crate::model::{Bdf, Fact, Kind, Match, Meeting, PciClass, Why};
use crate::topo::verb;

pub fn write(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    if view.topology.rows.is_empty() {
        return out.write_all(nothing(view).as_bytes());
    }
    let mut said = BTreeSet::new();
    let has_gpus = view.topology.rows_of(Kind::Gpu).next().is_some();
    if has_gpus {
        of_gpus(view, &mut said, out)?;
        out.write_all(b"\n")?;
    }
    matrix::write(view, out)?;
    if view.topology.has_all_pairs() {
        out.write_all(b"\n")?;
        out.write_all(legend(view).as_bytes())?;
    }
    of_other_nics(view, &mut said, out)?;
    for remark in remarks(view) {
        writeln!(out, "\n{}", wrap(&printable(&remark), view.style.width, 0, ""))?;
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
    let columns = view.topology.rows.len();
    let mut seen = Seen::default();
    for a in 0..matrix::rows(view) {
        for b in a + 1..columns {
            seen.add(view, a, b);
        }
    }
    let not_known = if seen.not_covered {
        "unknown in this source: use lspci -vvv of the whole machine as root, or better a snapshot (gdr \
             snapshot)"
    } else {
        "unknown: see gdr topo --verbose"
    };
    // A column, unless the longest name is there.
    let has_long = seen.classes.contains(&PciClass::NodeOrSys);
    let width = if has_long { PciClass::NodeOrSys.letters().len() + 1 } else { 5 };
    let class = |class: PciClass| (class.letters(), seen.classes.contains(&class));
    [
        (("NV#", seen.nvlinks), "that many NVLinks"),
        (class(PciClass::Pix), "at most one PCIe bridge between them"),
        (class(PciClass::Pxb), "several PCIe bridges, but not the host bridge"),
        (class(PciClass::Phb), "through one PCIe host bridge (the CPU)"),
        (class(PciClass::Node), "between host bridges of one NUMA node"),
        (class(PciClass::NodeOrSys), "between host bridges whose NUMA nodes are unknown"),
        (class(PciClass::Sys), "across the interconnect between NUMA nodes"),
        (("?", seen.unknown), not_known),
    ]
    .iter()
    .filter(|((_, seen), _)| *seen)
    .map(|((name, _), meaning)| {
        let tone = match *name {
            "NV#" => Some(Tone::Special),
            // Their classes rate nothing: `View::tone`.
            _ if view.facts.platform.is_guest() => None,
            name => Tone::of_cell(name),
        };
        let padded = format!("{name:<width$}");
        let name = tone.map_or(padded.clone(), |tone| view.style.paint(tone, &padded));
        let start = width + 3;
        let meaning = wrap(meaning, view.style.width, start, &" ".repeat(start));
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

/// The pieces of advice that were printed; several GPUs may need the same.
type Said = BTreeSet<String>;

fn of_gpus(view: &View<'_>, said: &mut Said, out: &mut dyn Write) -> io::Result<()> {
    let nics = Nics::new(view);
    let gpus: Vec<&Match> = of(view, Kind::Gpu).collect();
    let are_alike = |a: &&Match, b: &&Match| {
        a.pick.is_none() && b.pick.is_none() && (&a.reason, &a.advice) == (&b.reason, &b.advice)
    };
    for alike in gpus.chunk_by(are_alike) {
        let (Some(first), Some(last)) = (alike.first(), alike.last()) else {
            continue;
        };
        let name = |m: &Match| view.topology.rows[m.row].name.as_str();
        let text = match alike.len() {
            1 => one(view, &nics, said, first),
            _ => {
                let names = format!("{} to {}", name(first), name(last));
                without_partner(view, said, &names, first)
            }
        };
        out.write_all(text.as_bytes())?;
    }
    Ok(())
}

fn without_partner(view: &View<'_>, said: &mut Said, name: &str, m: &Match) -> String {
    let begin = format!("{name}: ");
    let line = if view.has_no_nic() {
        // There is nothing to judge.
        format!("{begin}{}\n", printable(&m.reason))
    } else {
        judged(view, &begin, m, &format!(": {}", m.reason))
    };
    line + &advice(view, said, m)
}

/// The NICs that are not the best of a GPU: of the others the reverse says nothing new.
fn of_other_nics(view: &View<'_>, said: &mut Said, out: &mut dyn Write) -> io::Result<()> {
    let nics = Nics::new(view);
    let best = of(view, Kind::Gpu).flat_map(|m| m.best.iter().copied());
    let best: BTreeSet<usize> = best.collect();
    let others = of(view, Kind::Nic).filter(|m| !best.contains(&m.row));
    // Of a guest's tree they would say nothing.
    let others = others.filter(|m| view.all || m.pick.is_none() || !view.facts.platform.is_guest());
    for (at, m) in others.enumerate() {
        let gap = if at == 0 { "\n" } else { "" };
        write!(out, "{gap}{}", one(view, &nics, said, m))?;
    }
    Ok(())
}

fn of<'a>(view: &View<'a>, kind: Kind) -> impl Iterator<Item = &'a Match> {
    let topology = view.topology;
    let matches = topology.matches.iter();
    matches.filter(move |m| topology.rows[m.row].kind == kind)
}

fn one(view: &View<'_>, nics: &Nics<'_>, said: &mut Said, m: &Match) -> String {
    let rows = &view.topology.rows;
    let row = &rows[m.row];
    let Some(pick) = m.pick else {
        return without_partner(view, said, &row.name, m);
    };
    let used = names(view, m.nccl.iter().copied().filter(|at| *at != pick));
    let near = m.best.iter().copied();
    let near = names(view, near.filter(|at| *at != pick && !m.nccl.contains(at)));
    let also: Vec<String> = [("NCCL also uses", used), ("equally near", near)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{what}: {names}"))
        .collect();
    let also = if also.is_empty() { String::new() } else { format!(" ({})", also.join("; ")) };
    let begin = format!("{} -> {}{also}: ", row.name, rows[pick].name);
    let mut rest = format!(": {}", tail(&m.reason));
    let mut text = String::new();
    if row.kind == Kind::Gpu {
        for part in [nics.port(&rows[pick]), limit(view, m.row, pick)] {
            rest.extend(part.map(|part| format!("; {part}")));
        }
    }
    if let Ok(path) = view.topology.route(m.row, pick) {
        for redirect in view.topology.redirecting(&path) {
            if let Fact::Known(bits) = redirect.bits {
                let what = format!(
                    "ACS at {} {} it: {}",
                    redirect.port,
                    verb(bits),
                    bits.names().join(" ")
                );
                let tone = match path.meeting {
                    Meeting::Bridge(_) => Tone::Bad,
                    Meeting::HostBridge(_) | Meeting::Interconnect(..) => Tone::Fair,
                };
                let what = wrap(&what, view.style.width, 2, "    ");
                text.push_str(&format!("  {}\n", view.style.paint(tone, &what)));
            }
        }
    }
    text.push_str(&advice(view, said, m));
    judged(view, &begin, m, &rest) + &text
}

fn advice(view: &View<'_>, said: &mut Said, m: &Match) -> String {
    let advice = m.advice.as_ref().filter(|advice| said.insert((*advice).clone()));
    advice.map_or_else(String::new, |advice| {
        let advice = wrap(&printable(advice), view.style.width, 2, "    ");
        format!("  {advice}\n")
    })
}

/// A line with a verdict; only the verdict is coloured.
fn judged(view: &View<'_>, begin: &str, m: &Match, rest: &str) -> String {
    let verdict = m.verdict.phrase();
    let line = wrap(&printable(&format!("{begin}{verdict}{rest}")), view.style.width, 0, "  ");
    let painted = view.style.paint(Tone::of_verdict(m.verdict), verdict);
    // A verdict of two words loses its colour if a line break divides it.
    format!("{}\n", line.replacen(&format!("{verdict}: "), &format!("{painted}: "), 1))
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
    let rows = view.topology.rows.len();
    if view.topology.has_all_pairs() && matrix::rows(view) < rows && !view.all {
        let shown = view.topology.rows_of(Kind::Gpu).count();
        if rows > shown + 1 {
            remarks.push("gdr topo --all shows the pairs without a GPU too.".to_owned());
        }
    }
    if view.facts.platform.is_guest() && rows > 1 {
        remarks.push(
            "This is a virtual machine: its PCI tree is the hypervisor's, and the classes do not show the host's paths. gdr probe rdma and \
             gdr probe p2p prove them."
                .to_owned(),
        );
    }
    remarks.extend(unknown_nvlinks(view));
    let managed: BTreeSet<Bdf> =
        view.topology.rows_of(Kind::Gpu).filter_map(|(_, row)| row.bdf).collect();
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

/// Why NVLinks are unknown, if the table has PCI classes in their place.
fn unknown_nvlinks(view: &View<'_>) -> Option<String> {
    let gpus = view.topology.rows_of(Kind::Gpu).count();
    if view.pci_only || !view.topology.has_all_pairs() {
        return None;
    }
    let pairs = || (0..gpus).flat_map(|a| (a + 1..gpus).map(move |b| (a, b)));
    let unknown = || pairs().filter(|(a, b)| has_unknown_nvlinks(view, *a, *b));
    // A class may be unknown too.
    let classes = if unknown().all(|(a, b)| view.cell(a, b).is_some()) {
        "their PCI class"
    } else {
        "their PCI class, where it is known"
    };
    let unknown = unknown().count();
    let note = view.facts.notes.iter().find(|note| note.source == "NVML");
    let why = match (note, view.facts.nvml()) {
        (Some(note), _) => note.message.as_str(),
        (None, None) => "NVML was not read",
        (None, Some(_)) => "NVML does not say",
    };
    match unknown {
        0 => None,
        _ if unknown == pairs().count() => {
            Some(format!("NVLinks are unknown ({why}): GPU pairs show {classes}."))
        }
        _ => Some(format!(
            "The NVLinks of some GPUs are unknown ({why}): these pairs show {classes}."
        )),
    }
}
