//! The outcome of a run, as JSON.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

use super::guest::CONSOLE;
use super::machine::Machine;

/// Lines of output shown for a failed guest.
const TAIL_LINES: usize = 25;

#[derive(Debug, Serialize)]
pub struct Outcome {
    pub machine: &'static str,
    /// What is simulated: `vm`, or `vm-lookalike`.
    pub simulated: &'static str,
    /// The script's exit status; with several guests the first that is not 0. None if a script did not finish.
    pub rc: Option<i32>,
    /// Wall time in seconds, to one decimal.
    pub seconds: f64,
    /// True if the timeout ended it.
    pub timed_out: bool,
    /// The script's /out/verdict.json; with several guests an object with one per guest.
    pub verdict: Option<Value>,
    /// Directory of the guests' /out.
    pub files: PathBuf,
    /// The failed guests, with the end of their output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<GuestOutcome>,
}

#[derive(Debug, Serialize)]
pub struct GuestOutcome {
    /// From 1.
    pub guest: u8,
    /// The script's exit status, if it finished.
    pub rc: Option<i32>,
    /// /out/verdict.json, if it is valid JSON.
    pub verdict: Option<Value>,
    /// Last lines of the serial console.
    pub console: Vec<String>,
    /// Last lines of the script's standard error.
    pub stderr: Vec<String>,
}

impl GuestOutcome {
    /// Reads a guest's output in `files`.
    pub fn read(guest: u8, files: &Path) -> Result<Self> {
        let text = |name: &str| {
            fs::read(files.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Self {
            guest,
            rc: text("rc").ok().and_then(|rc| rc.trim().parse().ok()),
            verdict: text("verdict.json").ok().and_then(|json| serde_json::from_str(&json).ok()),
            console: tail(&text(CONSOLE).unwrap_or_default()),
            stderr: tail(&text("stderr").unwrap_or_default()),
        })
    }

    /// True if the script ended with 0 and left a verdict.
    fn passed(&self) -> bool {
        self.rc == Some(0) && self.verdict.as_ref().is_some_and(Value::is_object)
    }
}

impl Outcome {
    /// Combines the guests' results.
    pub(super) fn new(
        machine: &Machine,
        seconds: f64,
        timed_out: bool,
        files: PathBuf,
        guests: Vec<GuestOutcome>,
    ) -> Self {
        let rc = guests.iter().map(|guest| guest.rc).find(|rc| *rc != Some(0)).unwrap_or(Some(0));
        let verdict = match guests.as_slice() {
            [only] => only.verdict.clone(),
            several => several
                .iter()
                .map(|guest| Some((format!("guest{}", guest.guest), guest.verdict.clone()?)))
                .collect::<Option<serde_json::Map<_, _>>>()
                .map(Value::Object),
        };
        let failures = guests.into_iter().filter(|guest| timed_out || !guest.passed()).collect();
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

    /// True if every guest's script ended with 0 and left a verdict before the timeout.
    pub fn passed(&self) -> bool {
        self.failures.is_empty() && !self.timed_out
    }

    /// Short form of the result.
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
    let lines: Vec<_> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].to_vec()
}
