//! `gdr snapshot`: a machine in a file, and two of them compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::machine::Machine;
use super::{document, names};
use crate::cli::{DiffFormat, Global, SnapshotOptions, style};
use crate::collect::{self, CollectOptions};
use crate::model::{DIFF_SCHEMA, Facts, MAX_PATHS, Side, Snapshot};
use crate::output::{self, Document};
use crate::pci;
use crate::render;
use crate::snapshot::{self, Known};
use crate::world::{MOST, NvmlQuery, VerbsQuery, World};

pub fn run(
    machine: Machine,
    global: &Global,
    options: &SnapshotOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let Some(output) = &options.output else {
        bail!("name the file with -o FILE");
    };
    let Machine::World(world) = machine else {
        bail!(
            "a dump of another program is no machine that could be recorded: it has told all it can"
        );
    };
    if options.live && !world.libraries.can_try() {
        bail!(
            "--live tries the hardware of the machine gdr runs on: of another there is no answer to record"
        );
    }
    let (mut snapshot, facts) = take(world, options.live)?;
    super::notes(global, false, &facts, err);
    if options.mask {
        snapshot::mask(&mut snapshot, &known(&facts));
    }
    let text = document::text(&snapshot)?;
    let size = write(output, &text, snapshot.masked, out)
        .with_context(|| format!("{} cannot be written", output.display()))?;
    super::remark(err, &what_was_written(output, size, &snapshot, &facts));
    Ok(0)
}

/// The names by which people know this machine and those who use it.
fn known(facts: &Facts) -> Known {
    // Who takes it may be named in a directory's files too, and in its path.
    let named = |name: &&str| !name.is_empty();
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let users = ["USER", "LOGNAME", "SUDO_USER"].map(variable);
    let home = variable("HOME");
    let home = home.rsplit('/').next().unwrap_or_default();
    let users = users.iter().map(String::as_str).chain([home]).filter(named);
    Known {
        hosts: facts.host.name.iter().cloned().collect(),
        // Root is no name of anybody.
        users: users
            .filter(|user| *user != "root")
            .map(str::to_owned)
            .collect(),
    }
}

/// Compares two records, fact by fact.
pub fn diff(
    files: &[PathBuf],
    global: &Global,
    options: &SnapshotOptions,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    let [a, b] = files else {
        bail!("--diff wants two files");
    };
    let side = |file: &PathBuf| -> anyhow::Result<(Facts, Side)> {
        let (machine, side) = Machine::read(file).with_context(|| file.display().to_string())?;
        let live = machine.can_be_tried();
        Ok((machine.facts(want(live)), side))
    };
    let ((a, side_a), (b, side_b)) = (side(a)?, side(b)?);
    let report = snapshot::diff(&a, &b).report(side_a, side_b, options.all);
    match options.format {
        DiffFormat::Table => super::print(out, &render::diff::table(&report, style(global.color)))?,
        DiffFormat::Json => super::print_with(out, |out| {
            output::write_pretty(out, &Document::new(DIFF_SCHEMA, &report))
        })?,
    }
    Ok(u8::from(!report.is_empty()))
}

/// What is in the file, and what its reader might miss.
fn what_was_written(output: &Path, size: usize, snapshot: &Snapshot, facts: &Facts) -> String {
    let mut text = format!(
        "{}: {:.1} kB: {} PCI functions, {} GPUs, {} sources",
        output.display(),
        size as f64 / 1e3,
        facts.devices().len(),
        facts.gpus().count(),
        snapshot.files.len()
    );
    if facts.process.uid.known().is_some_and(|uid| *uid != 0) {
        text.push_str("; taken without root: what only root may read is unknown in it");
    }
    if !snapshot.masked {
        text.push_str("; it names this machine: to give it away, take it with --mask");
    }
    text
}

/// Everything that any command would ask.
fn want(live: bool) -> CollectOptions {
    CollectOptions {
        nvme: true,
        nvml: NvmlQuery::EVERYTHING,
        system: true,
        modules: true,
        software: true,
        settings: true,
        cuda: true,
        verbs: Some(VerbsQuery { trials: live }),
        mapping: live,
        registration: live,
        initramfs: false,
    }
}

fn take(world: World, live: bool) -> anyhow::Result<(Snapshot, Facts)> {
    let (world, record) = world.recording();
    let facts = collect::facts(&world, want(live));
    name_devices(&world, &facts);
    super::fix::rehearse(&world, &facts)?;
    let snapshot = record.finish(output::now());
    if snapshot.files.len() > MAX_PATHS {
        bail!(
            "this machine's snapshot would have more than {MAX_PATHS} sources, which is all that gdr reads"
        );
    }
    Ok((snapshot, facts))
}

/// Asks for the names of the machine's devices, and for no others of the thousands that pci.ids has.
fn name_devices(world: &World, facts: &Facts) {
    let mut parts: BTreeMap<u16, BTreeSet<u16>> = BTreeMap::new();
    for ids in facts
        .devices()
        .iter()
        .filter_map(|device| device.ids.known())
    {
        parts.entry(ids.vendor).or_default().extend(ids.device);
    }
    let keep = |list: Vec<u8>| pci::only_these(&list, &parts);
    for file in names::FILES {
        // What it answers is in the record now. The first that is there is the one that names.
        if world.files.reduced(Path::new(file), MOST, &keep).is_ok() {
            break;
        }
    }
}

/// Writes a document whole or not at all: beside its place first, then over it. How many bytes it has.
fn write(output: &Path, text: &[u8], masked: bool, out: &mut dyn Write) -> anyhow::Result<usize> {
    if output == Path::new("-") {
        out.write_all(text)?;
        out.flush()?;
        return Ok(text.len());
    }
    let bytes = match output
        .extension()
        .is_some_and(|extension| extension == "zst")
    {
        true => document::compress(text),
        false => text.to_vec(),
    };
    // A link leads to what the user meant.
    let place = fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
    let there = fs::metadata(&place).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        // A pipe or a device cannot be replaced.
        fs::write(&place, &bytes)?;
        return Ok(bytes.len());
    }
    let directory = match place.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let mut beside = tempfile::Builder::new()
        .prefix(".gdr-")
        .tempfile_in(directory)?;
    beside.write_all(&bytes)?;
    let permissions = match there {
        Some(there) => there.permissions(),
        // What names the machine is its owner's.
        None => Permissions::from_mode(if masked { 0o644 } else { 0o600 }),
    };
    beside.as_file().set_permissions(permissions)?;
    beside.persist(&place).map_err(|error| error.error)?;
    Ok(bytes.len())
}
