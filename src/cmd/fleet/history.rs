//! `gdr fleet history`: the records of a directory over time.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::check;
use crate::cli::{FleetHistoryOptions, Global, HistoryFormat, style};
use crate::cmd::baseline::{bytes, inside, stem};
use crate::cmd::mask_key;
use crate::fleet::{Fleet, Timeline};
use crate::input::json_error;
use crate::model::{HISTORY_SCHEMA, RECORD_SCHEMA};
use crate::output::{self, Document};
use crate::render::{history as render, html};

/// Directories below the one that is named: one of each day, with the reports of its nodes.
const MAX_DIRECTORIES: usize = 4_000;

pub fn run(
    global: &Global,
    options: &FleetHistoryOptions,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    let key = mask_key::read(options.mask_key.as_deref())?;
    let mut timeline = read(&options.directory)?;
    if options.mask || key.is_some() {
        timeline.mask(key.as_ref());
    }
    let history = timeline.history();
    match options.format {
        HistoryFormat::Table => {
            crate::cmd::print(out, &render::table(&history, style(global.color)))?
        }
        HistoryFormat::Json => crate::cmd::print_with(out, |out| {
            output::write_pretty(out, &Document::new(HISTORY_SCHEMA, &history))
        })?,
        HistoryFormat::Html => crate::cmd::print(out, &html::history(&history, &output::now()))?,
    }
    Ok(u8::from(history.nodes.iter().any(|node| node.state != '.')))
}

/// Reads the directory and those in it. The reports of nodes in one directory are one record.
fn read(directory: &Path) -> anyhow::Result<Timeline> {
    let mut timeline = Timeline::default();
    let mut files = 0;
    for directory in directories(directory)? {
        let mut fleet = Fleet::new(check::is_volatile, check::is_of_one_device);
        let mut has_reports = false;
        for file in inside(&directory)? {
            files += 1;
            let json = match bytes(&file) {
                Ok(json) => json,
                Err(error) => {
                    timeline.note(format!("cannot read {}: {error:#}", file.display()));
                    continue;
                }
            };
            match timeline.add(&json) {
                Ok(true) => {}
                Ok(false) => {
                    fleet.add(None, &stem(&file), &json);
                    has_reports = true;
                }
                Err(error) => {
                    timeline.note(format!("cannot read {}: {}", file.display(), json_error(&error)))
                }
            }
        }
        if has_reports {
            let document = Document::new(RECORD_SCHEMA, fleet.record());
            let mut json = Vec::new();
            output::write_compact(&mut json, &document)?;
            timeline.add(&json).context("cannot read the record of these reports")?;
        }
    }
    if files == 0 {
        bail!(
            "{}: no file ends in .json or .json.zst; gdr fleet report --keep writes them",
            directory.display()
        );
    }
    Ok(timeline)
}

/// The directory, and those in it, in the order of their names.
fn directories(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let context = || directory.display().to_string();
    let mut below = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(context)? {
        let path = entry.with_context(context)?.path();
        if path.is_dir() {
            below.push(path);
        }
    }
    if below.len() > MAX_DIRECTORIES {
        bail!("{}: more than {MAX_DIRECTORIES} directories", directory.display());
    }
    below.sort_unstable();
    Ok(std::iter::once(directory.to_owned()).chain(below).collect())
}
