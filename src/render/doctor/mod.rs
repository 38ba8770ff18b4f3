//! Renders the doctor's report as table, Markdown and metrics. JSON serializes the document itself.

mod group;
mod line;
mod markdown;
mod prometheus;
mod table;

pub(in crate::render) use group::Group;
pub use line::{first_part, line};
pub use markdown::markdown;
pub use prometheus::prometheus;
pub use table::table;
pub(in crate::render) use table::verdict;

use schemars::JsonSchema;
use serde::Serialize;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use group::groups;

use super::Style;
use super::text::{counted, wrap};
use crate::model::Order as _;
use crate::model::{
    Area, Comparison, ELSEWHERE, Finding, Host, NextStep, Note, Outcome, Readiness, Readings, Root,
    Severity, Summary,
};

/// The document `gdr.doctor/1`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report<'a> {
    pub host: &'a Host,
    /// GPUs, driver and NICs in a line; `None` if the machine has none, or they are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<String>,
    /// The selected profiles.
    pub profiles: &'a [String],
    /// Result of each profile; empty if only some checks were run.
    pub readiness: Vec<Readiness>,
    /// Number of findings by outcome.
    pub summary: Summary,
    /// Numbers and versions, for metrics and to compare with another report.
    pub readings: Readings,
    /// What changed since an earlier report; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Failures and warnings that no other finding explains.
    pub roots: Vec<Root>,
    /// What to do, in the order in which it helps.
    pub next_steps: Vec<NextStep>,
    /// For each finding the one that explains it.
    #[serde(skip)]
    pub causes: Vec<Option<usize>>,
    /// All findings, in the order of the checks.
    pub findings: &'a [Finding],
    /// Sources that could not be read or parsed.
    pub notes: &'a [Note],
    /// Checks that `--quick` left out, whole or for some of their subjects.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub left_out: BTreeSet<String>,
}

/// Display options of a report.
pub struct Shown<'a> {
    /// Show only failed and unknown findings.
    pub quiet: bool,
    /// Show every finding with all of its evidence.
    pub verbose: bool,
    pub families: &'a [(&'a str, Vec<&'a str>)],
    /// Returns why a check matters.
    pub why: &'a dyn Fn(&str) -> &'static str,
    /// True if an unknown finding leaves a requirement of a profile open.
    pub matters: &'a dyn Fn(&Finding) -> bool,
    /// The fix command without ids: `sudo gdr fix`.
    pub fix: String,
    /// Where to run the fixes; empty for this machine.
    pub fix_where: &'static str,
    /// The phrase for a missing area, such as `not in this snapshot`.
    pub missing: &'static str,
    /// The command whose output, given too, shows more of an area.
    pub shown_by: &'a dyn Fn(Area, &BTreeSet<&str>) -> Option<&'static str>,
}

impl Shown<'_> {
    /// True if a finding other than a pass gets its own block, not only its area's line.
    fn has_block(&self, finding: &Finding) -> bool {
        let is_alone = finding.missing.is_none() && !needs_root(finding);
        self.verbose || finding.outcome != Outcome::Unknown || (is_alone && (self.matters)(finding))
    }
}

/// What is wrong, for every format.
pub(in crate::render) struct Problems<'a> {
    pub groups: Vec<Group<'a>>,
    /// One line per area that the source lacks.
    pub missing: Vec<String>,
    pub steps: Vec<StepLine>,
}

pub(in crate::render) fn problems<'a>(report: &Report<'a>, shown: &Shown<'_>) -> Problems<'a> {
    Problems {
        steps: steps(report, shown),
        missing: missing(report, shown),
        groups: groups(failures(report))
            .into_iter()
            .filter(|group| shown.has_block(group.findings[0]))
            .collect(),
    }
}

fn needs_root(finding: &Finding) -> bool {
    finding.outcome == Outcome::Unknown && finding.needs.as_deref() == Some("root")
}

/// One line per area missing from the source, and one for files that only root may read.
fn missing(report: &Report<'_>, shown: &Shown<'_>) -> Vec<String> {
    let mut areas: BTreeMap<Area, MissingSources<'_>> = BTreeMap::new();
    let mut denied = MissingSources::default();
    for finding in report
        .findings
        .iter()
        .zip(&report.causes)
        .filter(|(finding, cause)| cause.is_none() && finding.outcome == Outcome::Unknown)
        .map(|(finding, _)| finding)
    {
        match finding.missing {
            Some(area) => areas.entry(area).or_default().add(finding),
            None if needs_root(finding) => denied.add(finding),
            None => {}
        }
    }
    let lines = areas.iter().map(|(area, missing)| {
        let sources = missing.sources().unwrap_or_else(|| area.name().to_owned());
        let needs = missing.needs();
        let command = (shown.shown_by)(*area, &missing.sources)
            .map_or_else(String::new, |command| format!("; {command} shows more"));
        format!("{}: {sources} ({}){needs}{command}", shown.missing, missing.checks())
    });
    let root = (!denied.checks.is_empty()).then(|| match denied.sources() {
        Some(sources) => format!("needs root: {sources} ({})", denied.checks()),
        None => format!("needs root ({})", denied.checks()),
    });
    lines.chain(root).collect()
}

/// Findings that the same kind of source leaves open.
#[derive(Default)]
struct MissingSources<'a> {
    checks: BTreeSet<&'a str>,
    sources: BTreeSet<&'a str>,
    needs: BTreeSet<&'a str>,
}

impl<'a> MissingSources<'a> {
    fn add(&mut self, finding: &'a Finding) {
        self.checks.insert(&finding.id);
        // An unknown finding begins its evidence with the source that it lacks.
        let source = finding.evidence.first();
        let source = source.map_or("", |evidence| &evidence.source);
        self.sources.extend(source.split(", "));
        self.needs.insert(finding.needs.as_deref().unwrap_or(""));
    }

    /// The names of few sources; many are those of an area.
    fn sources(&self) -> Option<String> {
        let few = self.sources.len() <= 3 && !self.sources.contains("");
        few.then(|| self.sources.iter().copied().collect::<Vec<_>>().join(", "))
    }

    /// What makes the source readable, if it is one thing that this machine can have.
    fn needs(&self) -> String {
        match self.needs.first() {
            Some(needs)
                if self.needs.len() == 1 && !needs.is_empty() && !needs.ends_with(ELSEWHERE) =>
            {
                format!("; needs {needs}")
            }
            _ => String::new(),
        }
    }

    fn checks(&self) -> String {
        match self.checks.len() {
            few @ 1..=3 => {
                let ids: Vec<&str> = self.checks.iter().copied().collect();
                format!("{}: {}", counted(few, "check"), ids.join(", "))
            }
            many => counted(many, "check"),
        }
    }
}

/// A line about what to do.
pub(in crate::render) struct StepLine {
    lead: String,
    text: String,
    /// The text is a command to type.
    is_command: bool,
}

impl StepLine {
    /// The command to type, if it is one.
    pub(in crate::render) fn command(&self) -> Option<&str> {
        self.is_command.then_some(self.text.as_str())
    }

    /// What stands before the command, or everything.
    pub(in crate::render) fn words(&self) -> String {
        if self.is_command { self.lead.clone() } else { self.to_string() }
    }
}

impl fmt::Display for StepLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.lead, self.text)
    }
}

/// The steps as lines: all of them with numbers if there are several, and the first one, which is the last line of a report.
pub(in crate::render) fn steps(report: &Report<'_>, shown: &Shown<'_>) -> Vec<StepLine> {
    let [first, ..] = report.next_steps.as_slice() else {
        return Vec::new();
    };
    let line = |lead: String, step: &NextStep| StepLine {
        lead,
        text: step.line(),
        is_command: step.command.is_some(),
    };
    let mut lines = Vec::new();
    if report.next_steps.len() > 1 {
        lines.push(StepLine {
            lead: "In the order in which it helps:".to_owned(),
            text: String::new(),
            is_command: false,
        });
        let numbered = report.next_steps.iter().enumerate();
        lines.extend(numbered.map(|(at, step)| line(format!("  {}. ", at + 1), step)));
    }
    lines.push(line(format!("Next step{}: ", shown.fix_where), first));
    lines
}

/// What `--quick` left out, in words.
pub(in crate::render) fn left_out(report: &Report<'_>) -> Option<String> {
    (!report.left_out.is_empty()).then(|| {
        format!(
            "Left out by --quick: {} of software, of firmware settings, and of what only CUDA knows.",
            counted(report.left_out.len(), "check")
        )
    })
}

/// The root of a group; none if another finding explains all of it.
pub(in crate::render) fn root<'r>(report: &'r Report<'_>, group: &Group<'_>) -> Option<&'r Root> {
    let first = group.findings[0];
    let its = |root: &&Root| {
        root.check == first.id
            && root.outcome == first.outcome
            && group.findings.iter().any(|finding| root.subjects.contains(&finding.subject))
    };
    report.roots.iter().find(its)
}

/// What a root explains, as in `3 more: gpu.present, peermem.loaded, rdma.port`.
pub(in crate::render) fn explained(root: &Root) -> Option<String> {
    let more = root.explains.len();
    (more > 0).then(|| format!("{more} more: {}", root.explains.join(", ")))
}

/// Failures, warnings and unknown findings that nothing else explains, worst first.
fn failures<'a>(report: &Report<'a>) -> Vec<&'a Finding> {
    let mut found: Vec<&Finding> = report
        .findings
        .iter()
        .zip(&report.causes)
        .filter(|(finding, cause)| cause.is_none() && is_problem(finding))
        .map(|(finding, _)| finding)
        .collect();
    found.order_by_key(|finding| finding.outcome.urgency());
    found
}

/// Problems that another finding explains.
fn consequences<'a>(report: &Report<'a>) -> Vec<&'a Finding> {
    let all = report.findings.iter().zip(&report.causes);
    let all = all.filter(|(finding, cause)| cause.is_some() && is_problem(finding));
    all.map(|(finding, _)| finding).collect()
}

fn is_problem(finding: &Finding) -> bool {
    matches!(finding.outcome, Outcome::Fail | Outcome::Warn | Outcome::Unknown)
}

pub(in crate::render) fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "FAIL",
        Outcome::Warn => "WARN",
        Outcome::Info => "info",
        Outcome::Unknown => "UNKNOWN",
        Outcome::Skip => "skip",
    }
}

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

/// All checks: id, severity, rule.
pub fn list<'a>(
    checks: impl Iterator<Item = (&'a str, Severity, &'a str)> + Clone,
    style: Style,
) -> String {
    let widest = checks.clone().map(|(id, ..)| id.len()).max().unwrap_or(0);
    let indent = " ".repeat(widest + 9);
    let rule = |text: &str| wrap(text, style.width, indent.len(), &indent);
    checks
        .map(|(id, weight, text)| {
            format!("{id:<widest$}  {:<5}  {}\n", severity(weight), rule(text))
        })
        .collect()
}
