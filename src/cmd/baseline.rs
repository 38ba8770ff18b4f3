//! Earlier reports to compare with: a report of doctor, of a fleet, a record, or a directory of them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use serde::Deserialize;

use super::document;
use crate::check;
use crate::fleet::{self, Fleet, natural};
use crate::input::json_error;
use crate::model::Order as _;
use crate::model::{
    Comparison, CounterGrowth, FLEET_SCHEMA, Host, RECORD_SCHEMA, Readings, Record,
};

/// Ends of the names of files that a directory of reports is read from.
const ENDS: [&str; 4] = [".json", ".json.zst", ".json.gz", ".json.xz"];

/// Earlier reports.
pub struct Baseline {
    source: String,
    record: Record,
}

/// Reads a file, or a directory of reports; of a directory of records the newest. `None` for an empty directory.
pub fn read(source: &Path) -> anyhow::Result<Option<Baseline>> {
    let context = || format!("--baseline {}", source.display());
    let name = source.display().to_string();
    if !source.is_dir() {
        let json = bytes(source).with_context(context)?;
        let record = match saved(&json).with_context(context)? {
            Some(record) => record,
            None => merged([(stem(source), json)]),
        };
        if record.nodes.is_empty() {
            bail!(
                "{}: no report of gdr doctor, of gdr fleet or of gdr probe that this gdr reads",
                context()
            );
        }
        return Ok(Some(Baseline { source: name, record }));
    }
    let files = inside(source).with_context(context)?;
    let Some(last) = files.last() else { return Ok(None) };
    let json = bytes(last).with_context(|| last.display().to_string())?;
    if let Some(record) = saved(&json).with_context(|| last.display().to_string())? {
        return Ok(Some(Baseline { source: last.display().to_string(), record }));
    }
    let mut fleet = Fleet::new(check::is_volatile, check::is_of_one_device);
    for file in &files {
        let json = bytes(file).with_context(|| file.display().to_string())?;
        fleet.add(None, &stem(file), &json);
    }
    Ok(Some(Baseline { source: name, record: fleet.record() }))
}

impl Baseline {
    /// How these reports of a fleet differ from the earlier ones.
    pub fn compare(&self, now: &mut Record) -> Comparison {
        Comparison {
            source: self.source.clone(),
            ..fleet::compare(&self.record, now, check::is_volatile)
        }
    }

    /// The node of a machine: that of its name, or the only one.
    pub fn of_machine(mut self, name: Option<&str>) -> anyhow::Result<Self> {
        let nodes = &mut self.record.nodes;
        if nodes.len() > 1 {
            nodes.retain(|node| Some(node.name.as_str()) == name);
        }
        if nodes.is_empty() {
            let name = name.unwrap_or("a machine without a name");
            bail!("--baseline {}: no report of {name}", self.source);
        }
        self.record.absent.clear();
        Ok(self)
    }

    /// How a machine differs from its earlier report, whatever its name was there.
    pub fn compare_machine(&mut self, report: &[u8]) -> Comparison {
        let mut now = merged([(String::new(), report.to_vec())]);
        let mut renamed = None;
        for (old, new) in self.record.nodes.iter_mut().zip(&now.nodes) {
            if old.name != new.name {
                renamed = Some(format!("the earlier report is of {}", old.name));
                new.name.clone_into(&mut old.name);
            }
        }
        let mut comparison = self.compare(&mut now);
        comparison.notes.extend(renamed);
        comparison
    }

    /// What the counters of a machine rose by since then; none without a time or counters on both sides.
    pub fn growth(&self, host: &Host, readings: &Readings, taken: &str) -> Option<CounterGrowth> {
        let node = self.record.nodes.first()?;
        let seconds = fleet::seconds(&node.taken, taken)?;
        let has_rebooted =
            host.booted.as_deref().is_some_and(|booted| booted > node.taken.as_str());
        let rises = fleet::rises(&node.counters, &readings.counters, has_rebooted);
        (!rises.is_empty()).then_some(CounterGrowth { seconds, rises })
    }
}

/// The record that a file holds; none if it is another report.
pub fn saved(json: &[u8]) -> anyhow::Result<Option<Record>> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
        #[serde(default)]
        record: Option<Record>,
    }
    let invalid = |error: serde_json::Error| anyhow!("cannot read it: {}", json_error(&error));
    // A report that is not JSON is one of a node without a report.
    let Ok(head) = serde_json::from_slice::<Head>(json) else { return Ok(None) };
    match (head.schema.as_deref(), head.record) {
        (Some(RECORD_SCHEMA), _) => Ok(Some(serde_json::from_slice(json).map_err(invalid)?)),
        (Some(FLEET_SCHEMA), Some(record)) => Ok(Some(record)),
        (Some(FLEET_SCHEMA), None) => bail!(
            "this report of a fleet has no record of its nodes, because it was masked or an older gdr wrote it: name the directory of the nodes' reports"
        ),
        (Some(schema), _) if schema.starts_with("gdr.record/") => {
            bail!("another gdr wrote this record, with a schema that this gdr does not read")
        }
        _ => Ok(None),
    }
}

fn merged(reports: impl IntoIterator<Item = (String, Vec<u8>)>) -> Record {
    let mut fleet = Fleet::new(check::is_volatile, check::is_of_one_device);
    for (name, json) in reports {
        fleet.add(None, &name, &json);
    }
    fleet.record()
}

pub fn bytes(file: &Path) -> anyhow::Result<Vec<u8>> {
    document::open(file, |content| document::whole(content))
}

/// The files of a directory that may be reports, in the order of their names.
pub fn inside(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let context = || directory.display().to_string();
    let mut inside = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_file() && ENDS.iter().any(|end| name.ends_with(end)) {
            inside.push(path);
        }
    }
    inside.order_by(|a, b| natural(&stem(a)).cmp(&natural(&stem(b))));
    Ok(inside)
}

/// The name of a file up to `.json`.
pub fn stem(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    name.split(".json").next().unwrap_or(&name).to_owned()
}
