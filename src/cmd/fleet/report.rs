//! `gdr fleet report`: merges files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

use crate::check;
use crate::cli::{FleetReportOptions, Global};
use crate::cmd::baseline::{self, stem};
use crate::cmd::{document, mask_key, remark};
use crate::fleet::{self, Fleet};
use crate::model::{Absence, RECORD_SCHEMA, Record};
use crate::output::{self, Document};
use crate::probe::rendezvous::expand;

/// Merges files, compares them with earlier ones, and keeps a record of them.
pub fn run(
    global: &Global,
    options: &FleetReportOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> anyhow::Result<u8> {
    let earlier = match &options.baseline {
        Some(source) => baseline::read(source)?,
        None => None,
    };
    if let (None, Some(source)) = (&earlier, &options.baseline) {
        if options.keep.is_none() {
            bail!(
                "--baseline {}: no file of this directory ends in .json or .json.zst",
                source.display()
            );
        }
        remark(err, &format!("{}: no earlier record to compare with", source.display()));
    }
    let mut fleet = merged(options)?;
    let mut record = fleet.record();
    let comparison = earlier.map(|earlier| earlier.compare(&mut record));
    if let Some(directory) = &options.keep {
        keep(directory, &record, out)?;
    }
    let key = mask_key::read(options.mask_key.as_deref())?;
    let is_masked = options.mask || key.is_some();
    let mut report = fleet.report(is_masked, key.as_ref());
    if comparison.is_some() {
        fleet::add_since(&mut report.actions, &record);
    }
    report.comparison = comparison;
    report.record = (!is_masked).then_some(record);
    super::print(global, &report, options.format, out)
}

/// Writes the record into a directory that exists; its name is the time of the newest report.
fn keep(directory: &Path, record: &Record, out: &mut dyn Write) -> anyhow::Result<()> {
    let taken =
        record.nodes.iter().map(|node| node.taken.as_str()).filter(|taken| !taken.is_empty());
    let Some(taken) = taken.max() else {
        bail!("--keep: no report says when it was taken");
    };
    if !directory.is_dir() {
        bail!("--keep {}: it is not a directory: create it first", directory.display());
    }
    // The text of a report: only characters of a time go into a name.
    let name: String = taken.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let file = directory.join(format!("{name}.json.zst"));
    let mut text = Vec::new();
    let document = Document { taken: taken.to_owned(), ..Document::new(RECORD_SCHEMA, record) };
    output::write_compact(&mut text, &document)?;
    document::write(&file, &text, false, out)
        .with_context(|| format!("--keep: cannot write {}", file.display()))?;
    Ok(())
}

/// Merges files.
fn merged(options: &FleetReportOptions) -> anyhow::Result<Fleet> {
    let mut fleet = Fleet::new(check::is_volatile, check::is_of_one_device);
    if let Some(list) = &options.nodes {
        fleet.expect(expand(list).map_err(|why| anyhow!("--nodes: {why}"))?);
    }
    for file in files(&options.sources)? {
        let name = stem(&file);
        match baseline::bytes(&file) {
            Ok(json) => fleet.add(options.by_file.then_some(name.as_str()), &name, &json),
            Err(error) => fleet.absent(
                &name,
                Absence::Invalid,
                format!("cannot read {}: {error:#}", file.display()),
            ),
        }
    }
    Ok(fleet)
}

/// True if the directory holds what gdr run wrote.
fn has_logs(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.path().extension().is_some_and(|end| end == "log"))
    })
}

/// The files of the arguments, those of directories included.
fn files(sources: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for source in sources {
        if !source.is_dir() {
            files.push(source.clone());
            continue;
        }
        let inside = baseline::inside(source)?;
        if inside.is_empty() {
            let next =
                if has_logs(source) { "; gdr explain --job reads the logs of a job" } else { "" };
            bail!("{}: no file of this directory ends in .json{next}", source.display());
        }
        files.extend(inside);
    }
    Ok(files)
}
