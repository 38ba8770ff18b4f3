//! Reads the JSON of a probe from a file.

use std::path::Path;

use anyhow::anyhow;
use serde::Deserialize;

use super::document;
use crate::input::json_error;
use crate::model::{PROBE_SCHEMA, ProbeReport};

/// A probe's report.
pub struct Saved {
    pub report: ProbeReport,
}

#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

/// The report in a file; none if the file is something else.
pub fn read(file: &Path) -> anyhow::Result<Option<Saved>> {
    let bytes = document::open(file, |content| document::whole(content))?;
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    let invalid = |error| anyhow!("invalid {PROBE_SCHEMA}: {}", json_error(&error));
    let Head { schema } = match serde_json::from_slice(&bytes) {
        Ok(head) => head,
        Err(_) => return Ok(None),
    };
    if schema.as_deref() != Some(PROBE_SCHEMA) {
        return Ok(None);
    }
    let report = serde_json::from_slice(&bytes).map_err(invalid)?;
    Ok(Some(Saved { report }))
}
