//! `gdr fleet report`: merges files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

use crate::check;
use crate::cli::FleetReportOptions;
use crate::cmd::document;
use crate::fleet::{Fleet, natural};
use crate::model::Absence;
use crate::model::Order as _;
use crate::probe::rdma::rendezvous::expand;

/// Merges files.
pub fn report(options: &FleetReportOptions) -> anyhow::Result<Fleet> {
    let mut fleet = Fleet::new(check::is_volatile);
    if let Some(list) = &options.nodes {
        fleet.expect(expand(list).map_err(|why| anyhow!("--nodes: {why}"))?);
    }
    for file in files(&options.sources)? {
        let name = stem(&file);
        match document::open(&file, |content| document::whole(content)) {
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
            bail!("{}: no file of this directory ends in .json", source.display());
        }
        inside.order_by(|a, b| natural(&stem(a)).cmp(&natural(&stem(b))));
        files.extend(inside);
    }
    Ok(files)
}

/// The name of a file up to `.json`.
fn stem(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    name.split(".json").next().unwrap_or(&name).to_owned()
}
