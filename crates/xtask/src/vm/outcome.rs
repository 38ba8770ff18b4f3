//! What came of a run, as the JSON that xtask prints.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::guest::CONSOLE;
use super::machine::Machine;

/// How much of a text is shown of a guest that did not do well.
const TAIL_LINES: usize = 25;

#[derive(Debug, Serialize)]
pub struct Outcome {
    pub machine: &'static str,
    /// What is not real about it: `vm`, or `vm-lookalike`.
    pub simulated: &'static str,
    /// The script's exit status; of several guests the first that is not 0. None if a script did not come to its end.
    pub rc: Option<i32>,
    /// Wall time, in seconds, to a tenth.
    pub seconds: f64,
    /// Whether the watchdog ended it.
    pub timed_out: bool,
    /// The script's /out/verdict.json; of several guests an object with one a guest.
    pub verdict: Option<Value>,
    /// Where everything the guests left in /out is now.
    pub files: PathBuf,
    /// The guests that did not do well, with what they last said.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<GuestOutcome>,
}

#[derive(Debug, Serialize)]
pub struct GuestOutcome {
    /// From 1.
    pub guest: u8,
    /// The script's exit status, if it came to its end.
    pub rc: Option<i32>,
    /// What the script wrote into /out/verdict.json, if it is JSON.
    pub verdict: Option<Value>,
    /// The last lines of the serial console.
    pub console: Vec<String>,
    /// The last lines of the script's standard error.
    pub stderr: Vec<String>,
}

impl GuestOutcome {
    /// Reads what a guest left in `files`.
    pub fn read(guest: u8, files: &Path) -> Result<Self> {
        let text = |name: &str| {
            fs::read(files.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Self {
            guest,
            rc: text("rc").ok().and_then(|rc| rc.trim().parse().ok()),
            verdict: text("verdict.json")
                .ok()
                .and_then(|json| serde_json::from_str(&json).ok()),
            console: tail(&text(CONSOLE).unwrap_or_default()),
            stderr: tail(&text("stderr").unwrap_or_default()),
        })
    }

    /// The script ended well and said so.
    fn passed(&self) -> bool {
        self.rc == Some(0) && self.verdict.as_ref().is_some_and(Value::is_object)
    }
}

impl Outcome {
    /// Joins the guests' results.
    pub(super) fn new(
        machine: &Machine,
        seconds: f64,
        timed_out: bool,
        files: PathBuf,
        guests: Vec<GuestOutcome>,
    ) -> Self {
        let rc = guests
            .iter()
            .map(|guest| guest.rc)
            .find(|rc| *rc != Some(0))
            .unwrap_or(Some(0));
        let verdict = match guests.as_slice() {
            [only] => only.verdict.clone(),
            several => several
                .iter()
                .map(|guest| Some((format!("guest{}", guest.guest), guest.verdict.clone()?)))
                .collect::<Option<serde_json::Map<_, _>>>()
                .map(Value::Object),
        };
        let failures = guests
            .into_iter()
            .filter(|guest| timed_out || !guest.passed())
            .collect();
        let seconds = (seconds * 10.0).round() / 10.0;
        Self {
            machine: machine.name,
            simulated: machine.simulated(),
            rc,
            seconds,
            timed_out,
            verdict,
            files,
            failures,
        }
    }

    /// Whether every guest's script ended with 0 and left a verdict, in time.
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && !self.timed_out
    }

    /// The result in a word or two.
    pub fn word(&self) -> &'static str {
        match (self.passed(), self.timed_out, self.rc) {
            (true, ..) => "passed",
            (_, true, _) => "stopped by the watchdog",
            (_, _, None) => "ended before the script did",
            (_, _, Some(0)) => "passed no verdict",
            _ => "failed",
        }
    }
}

fn tail(text: &str) -> Vec<String> {
    let lines: Vec<_> = text
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].to_vec()
}
