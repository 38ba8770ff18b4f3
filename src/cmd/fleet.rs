//! `gdr fleet`: the reports of many nodes in one.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

use super::document;
use crate::cli::{Fleet, FleetFormat, FleetReportOptions, FleetWhat, Global, style};
use crate::fleet::{self, exit_code, natural};
use crate::model::{Absence, FLEET_SCHEMA, FleetReport};
use crate::output::{self, Document};
use crate::probe::rdma::rendezvous::expand;
use crate::render::fleet as render;

pub fn run(global: &Global, options: &Fleet, out: &mut dyn Write) -> anyhow::Result<u8> {
    match &options.what {
        FleetWhat::Report(options) => report(global, options, out),
    }
}

/// Merges files.
fn report(
    global: &Global,
    options: &FleetReportOptions,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    let mut fleet = fleet::Fleet::default();
    if let Some(list) = &options.nodes {
        fleet.expect(expand(list).map_err(|why| anyhow!("--nodes: {why}"))?);
    }
    for file in files(&options.sources)? {
        let name = stem(&file);
        match document::open(&file, |content| document::whole(content)) {
            Ok(json) => fleet.add(None, &name, &json),
            Err(error) => fleet.absent(
                &name,
                Absence::Invalid,
                format!("cannot read {}: {error:#}", file.display()),
            ),
        }
    }
    print(global, &fleet.report(), options.format, out)
}

/// The files of the arguments, those of directories included.
fn files(sources: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for source in sources {
        if !source.is_dir() {
            files.push(source.clone());
            continue;
        }
        let context = || source.display().to_string();
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(source).with_context(context)? {
            let path = entry.with_context(context)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_file()
                && [".json", ".json.zst", ".json.gz", ".json.xz"]
                    .iter()
                    .any(|end| name.ends_with(end))
            {
                inside.push(path);
            }
        }
        if inside.is_empty() {
            bail!(
                "{}: no file of this directory ends in .json",
                source.display()
            );
        }
        inside.sort_by(|a, b| natural(&stem(a)).cmp(&natural(&stem(b))));
        files.extend(inside);
    }
    Ok(files)
}

/// The name of a file up to `.json`.
fn stem(file: &Path) -> String {
    let name = file
        .file_name()
        .unwrap_or(file.as_os_str())
        .to_string_lossy();
    name.split(".json").next().unwrap_or(&name).to_owned()
}

fn print(
    global: &Global,
    report: &FleetReport,
    format: FleetFormat,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    match format {
        FleetFormat::Table => super::print(out, &render::table(report, style(global.color)))?,
        FleetFormat::Json => super::print_with(out, |out| {
            output::write_pretty(out, &Document::new(FLEET_SCHEMA, report))
        })?,
    }
    Ok(exit_code(report))
}
