//! The doctor's report: a table and a document for people, metrics for a monitor; the JSON is the report's own shape.

mod markdown;
mod prometheus;
mod table;

pub use markdown::markdown;
pub use prometheus::prometheus;
pub use table::table;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::{Finding, Host, Note, Outcome, Readiness, Severity, Summary};

/// The document `gdr.doctor/1`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report<'a> {
    /// `gdr.doctor/1`.
    pub schema: &'static str,
    pub host: &'a Host,
    /// The profiles in force.
    pub profiles: &'a [String],
    /// What the findings come to for each profile; empty where only some checks were run.
    pub readiness: Vec<Readiness>,
    /// How many findings ended how.
    pub summary: Summary,
    /// Every finding, in the order of the checks.
    pub findings: &'a [Finding],
    /// What could not be read or made sense of.
    pub notes: &'a [Note],
}

/// How much of a report is shown to people, and what they are told besides.
pub struct Shown<'a> {
    /// What is wrong or unknown, and nothing else.
    pub quiet: bool,
    /// What each finding rests on.
    pub evidence: bool,
    /// The families of checks: title, and the ids in order.
    pub families: &'a [(&'a str, Vec<&'a str>)],
    /// Why a check matters.
    pub why: &'a dyn Fn(&str) -> &'static str,
}

/// The findings that want something done, the worst first.
fn failures<'a>(report: &'a Report<'_>) -> Vec<&'a Finding> {
    let mut found: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|finding| {
            matches!(
                finding.outcome,
                Outcome::Fail | Outcome::Warn | Outcome::Unknown
            )
        })
        .collect();
    found.sort_by_key(|finding| match finding.outcome {
        Outcome::Fail => 0,
        Outcome::Warn => 1,
        _ => 2,
    });
    found
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "FAIL",
        Outcome::Warn => "WARN",
        Outcome::Info => "info",
        Outcome::Unknown => "UNKNOWN",
        Outcome::Skip => "skip",
    }
}

/// How many findings ended so.
fn counts(summary: &Summary) -> [(Outcome, usize, &'static str); 6] {
    [
        (Outcome::Pass, summary.pass, "pass"),
        (Outcome::Fail, summary.fail, "fail"),
        (Outcome::Warn, summary.warn, "warn"),
        (Outcome::Info, summary.info, "info"),
        (Outcome::Unknown, summary.unknown, "unknown"),
        (Outcome::Skip, summary.skip, "skip"),
    ]
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warn => "warn",
        Severity::Info => "info",
    }
}

/// The checks there are: id, weight, rule.
pub fn list<'a>(checks: impl Iterator<Item = (&'a str, Severity, &'a str)> + Clone) -> String {
    let widest = checks.clone().map(|(id, ..)| id.len()).max().unwrap_or(0);
    checks
        .map(|(id, weight, rule)| format!("{id:<widest$}  {:<5}  {rule}\n", severity(weight)))
        .collect()
}
