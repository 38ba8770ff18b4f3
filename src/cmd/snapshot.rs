//! `gdr snapshot`: records a machine in a file, and compares two of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::machine::{Machine, Recorded};
use super::probe_file::Saved;
use super::{document, mask_key, names, vendor_report};
use crate::cli::{DiffFormat, Global, SnapshotOptions, style};
use crate::collect::{self, CollectOptions};
use crate::model::{DIFF_SCHEMA, Diff, Facts, LibraryAnswer, MAX_PATHS, Side, Snapshot};
use crate::output::{self, Document};
use crate::pci;
use crate::probe::baseline;
use crate::render;
use crate::snapshot::{self, Known};
use crate::world::{MOST, World};

pub fn run(
    machine: Machine,
    global: &Global,
    options: &SnapshotOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let Some(output) = &options.output else {
        bail!("no output file: use -o FILE");
    };
    let Machine::World(world) = machine else {
        bail!("cannot record a dump of another program: run 'gdr snapshot' on the machine itself");
    };
    if options.live && !world.libraries.can_try() {
        bail!("--live tests the hardware of this machine: it does not work for a recorded one");
    }
    let cannot_write = || format!("cannot write {}", output.display());
    if options.with_reports {
        reject_plain_name(output)?;
    }
    let key = mask_key::read(options.mask_key.as_deref())?;
    document::check_writable(output).with_context(cannot_write)?;
    let log = options.with_reports.then(|| vendor_report::kernel_log(&world));
    let has_log = matches!(log, Some(LibraryAnswer::Answered(_)));
    let (mut snapshot, facts) = take(world, options.live)?;
    super::notes(global, false, &facts, err);
    if let Some(log) = log {
        vendor_report::add_kernel_log(&mut snapshot, log);
    }
    if options.mask || key.is_some() || options.with_reports {
        snapshot::mask(&mut snapshot, &Known { key, ..names_to_mask(&facts) });
    }
    if options.with_reports {
        let archive = vendor_report::archive(snapshot, err)?;
        let size = document::write(output, &archive, true, out).with_context(cannot_write)?;
        let text = format!(
            "{}: {:.1} kB, masked: snapshot, doctor, topo, counters{}; README.txt in it says what it holds",
            output.display(),
            size as f64 / 1e3,
            if has_log { ", kernel log" } else { "" }
        );
        super::remark(err, &text);
        return Ok(0);
    }
    let text = document::text(&snapshot)?;
    let size = document::write(output, &text, snapshot.masked, out).with_context(cannot_write)?;
    super::remark(err, &summary(output, size, &snapshot, &facts));
    Ok(0)
}

/// The archive is not a document of gdr, so its name should say what it is.
fn reject_plain_name(output: &Path) -> anyhow::Result<()> {
    let name = output.to_string_lossy();
    if name == "-" || [".tar", ".tar.zst"].iter().any(|end| name.ends_with(end)) {
        return Ok(());
    }
    bail!("--with-reports writes an archive: its name ends in .tar or .tar.zst")
}

/// Names of this machine and its users, to be masked.
fn names_to_mask(facts: &Facts) -> Known {
    Known { hosts: facts.host.name.iter().cloned().collect(), ..mask_key::known_users() }
}

/// Compares two snapshots, or two reports of a probe.
pub fn diff(
    files: &[PathBuf],
    global: &Global,
    options: &SnapshotOptions,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    let [a, b] = files else {
        bail!("--diff needs two files");
    };
    let read = |file: &PathBuf| Recorded::read(file).with_context(|| file.display().to_string());
    let diff = match (read(a)?, read(b)?) {
        (Recorded::Probe(a), Recorded::Probe(b)) => figures(*a, *b)?,
        (Recorded::Machine(a, of_a), Recorded::Machine(b, of_b)) => {
            let facts = |machine: &Machine| {
                machine.facts(CollectOptions::everything(machine.can_be_tried()))
            };
            (snapshot::diff(&facts(&a), &facts(&b)), of_a, of_b)
        }
        _ => bail!(
            "one file has the results of a probe, the other a machine: they cannot be compared"
        ),
    };
    let report = diff.0.report(diff.1, diff.2, options.all);
    match options.format {
        DiffFormat::Table => super::print(out, &render::diff::table(&report, style(global.color)))?,
        DiffFormat::Html => super::print(out, &render::html::diff(&report, &output::now()))?,
        DiffFormat::Json => super::print_with(out, |out| {
            output::write_pretty(out, &Document::new(DIFF_SCHEMA, &report))
        })?,
    }
    Ok(u8::from(!report.is_empty()))
}

/// Compares the results of two probes.
fn figures(a: Saved, b: Saved) -> anyhow::Result<(Diff, Side, Side)> {
    if (a.report.probe, a.report.simulated) != (b.report.probe, b.report.simulated) {
        bail!("the files have results of different probes, or only one was simulated");
    }
    let diff = baseline::compare(&a.report.results, &b.report.results, baseline::TOLERANCE);
    Ok((diff, a.side, b.side))
}

/// Summary of the recorded file, with its limits.
fn summary(output: &Path, size: usize, snapshot: &Snapshot, facts: &Facts) -> String {
    let mut text = format!(
        "{}: {:.1} kB: {}, {}, {}",
        output.display(),
        size as f64 / 1e3,
        render::counted(facts.devices().len(), "PCI function"),
        render::counted(facts.gpus().count(), "GPU"),
        render::counted(snapshot.files.len(), "source")
    );
    if facts.process.uid.known().is_some_and(|uid| *uid != 0) {
        text.push_str("; recorded without root: facts that need root are unknown");
    }
    if !snapshot.masked {
        text.push_str("; it identifies this machine: use --mask before sharing it");
    }
    text
}

fn take(world: World, live: bool) -> anyhow::Result<(Snapshot, Facts)> {
    let (world, record) = world.recording();
    let facts = collect::facts(&world, CollectOptions::everything(live));
    name_devices(&world, &facts);
    super::planned::rehearse(&world, &facts)?;
    let snapshot = record.finish(output::now());
    if snapshot.files.len() > MAX_PATHS {
        bail!(
            "the snapshot of this machine would exceed {MAX_PATHS} sources, the most that gdr reads"
        );
    }
    Ok((snapshot, facts))
}

/// Records the names of the machine's devices, and only those of pci.ids.
fn name_devices(world: &World, facts: &Facts) {
    let mut parts: BTreeMap<u16, BTreeSet<u16>> = BTreeMap::new();
    for ids in facts.devices().iter().filter_map(|device| device.ids.known()) {
        parts.entry(ids.vendor).or_default().extend(ids.device);
    }
    let keep = |list: Vec<u8>| pci::only_these(&list, &parts);
    for file in names::FILES {
        // Reading records the result. The first file that exists provides the names.
        if world.files.reduced(Path::new(file), MOST, &keep).is_ok() {
            break;
        }
    }
}
