//! Reports of probes in files: baselines, and sources of expectations.

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde::{Deserialize, Deserializer};

use super::document;
use crate::input::json_error;
use crate::model::limited::list;
use crate::model::{PROBE_SCHEMA, ProbeKind, ProbeReport, ProbeResult, Side};
use crate::output::{self, Document};

/// Most results of a report: a saved one of this many has 64 MiB.
const MAX_RESULTS: usize = 131_072;

/// A probe's report.
pub struct Saved {
    pub report: SavedReport,
    /// Where it comes from.
    pub side: Side,
}

/// What comparisons and expectations need of a report.
#[derive(Deserialize)]
pub struct SavedReport {
    pub probe: ProbeKind,
    pub simulated: bool,
    host: HostName,
    #[serde(deserialize_with = "results")]
    pub results: Vec<ProbeResult>,
}

#[derive(Deserialize)]
struct HostName {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    taken: Option<String>,
}

fn results<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ProbeResult>, D::Error> {
    /// A result without its distribution, which is most of it.
    struct Figures(ProbeResult);

    impl<'de> Deserialize<'de> for Figures {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let result = ProbeResult::deserialize(deserializer)?;
            Ok(Self(ProbeResult { histogram: Vec::new(), ..result }))
        }
    }

    let results = list::<MAX_RESULTS, Figures, D>(deserializer)?;
    Ok(results.into_iter().map(|Figures(result)| result).collect())
}

/// The report in a document; none if the document is something else.
pub fn parse(bytes: &[u8], source: &str) -> anyhow::Result<Option<Saved>> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    let Ok(Head { schema, taken }) = serde_json::from_slice(bytes) else {
        return Ok(None);
    };
    if schema.as_deref() != Some(PROBE_SCHEMA) {
        return Ok(None);
    }
    let mut report: SavedReport = serde_json::from_slice(bytes)
        .map_err(|error| anyhow!("invalid {PROBE_SCHEMA}: {}", json_error(&error)))?;
    let side = Side { source: source.to_owned(), host: report.host.name.take(), taken };
    Ok(Some(Saved { report, side }))
}

/// The baseline for a probe of this kind.
pub fn baseline(file: &Path, kind: ProbeKind, simulated: bool) -> anyhow::Result<Saved> {
    let bytes = document::open(file, |content| document::whole(content))?;
    let saved = parse(&bytes, &file.display().to_string())?.ok_or_else(|| {
        anyhow!("this is not a {PROBE_SCHEMA}: gdr probe {} --save FILE writes one", kind.name())
    })?;
    let report = &saved.report;
    if report.probe != kind {
        bail!(
            "it is a baseline of gdr probe {}, not of gdr probe {}",
            report.probe.name(),
            kind.name()
        );
    }
    if report.simulated != simulated {
        let words = |simulated| {
            if simulated { "simulated" } else { "measured on hardware" }
        };
        bail!("it was {}, this probe is {}", words(report.simulated), words(simulated));
    }
    Ok(saved)
}

/// Fails if a report could not be saved, before minutes are measured for it.
pub fn check_save(file: &Path) -> anyhow::Result<()> {
    document::check_writable(file)
        .with_context(|| format!("--save: cannot write {}; nothing was measured", file.display()))
}

/// Saves a report as a baseline.
pub fn save(file: &Path, report: &ProbeReport, out: &mut dyn Write) -> anyhow::Result<()> {
    let report =
        ProbeReport { findings: Vec::new(), baseline: None, next_step: None, ..report.clone() };
    let mut text = Vec::new();
    output::write_pretty(&mut text, &Document::new(PROBE_SCHEMA, &report))?;
    document::write(file, &text, true, out)?;
    Ok(())
}
