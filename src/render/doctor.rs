//! The doctor's report: a table for people; the JSON is the report's own shape.

use schemars::JsonSchema;
use serde::Serialize;

use super::Style;
use super::text::{Tone, printable, wrap};
use crate::model::{Finding, Host, Note, Outcome, Severity, Summary};

/// The document `gdr.doctor/1`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report<'a> {
    /// `gdr.doctor/1`.
    pub schema: &'static str,
    /// The machine.
    pub host: &'a Host,
    /// The profiles in force.
    pub profiles: &'a [String],
    /// How many findings ended how.
    pub summary: Summary,
    /// Every finding, in the order of the checks.
    pub findings: &'a [Finding],
    /// What could not be read or made sense of.
    pub notes: &'a [Note],
}

/// The report for people: what stands in the way first in the eye, its cure below it.
pub fn table(report: &Report<'_>, style: Style) -> String {
    let mut page = header(report, style);
    let widest = report.findings.iter().map(|f| f.id.len()).max().unwrap_or(0);
    for finding in report.findings {
        page.push_str(&entry(finding, widest, style));
    }
    page.push('\n');
    page.push_str(&summary(&report.summary, style));
    page
}

fn header(report: &Report<'_>, style: Style) -> String {
    let Host { name, os, kernel, .. } = report.host;
    let parts: Vec<String> = [name, os, kernel]
        .into_iter()
        .flatten()
        .map(|part| printable(part))
        .collect();
    let what = match report.host.source.as_str() {
        "live" => String::new(),
        source => format!(" (recorded: {source})"),
    };
    let title = format!("gdr doctor: {}{what}", parts.join(", "));
    let profiles = format!("ready for: {}", report.profiles.join(", "));
    format!(
        "{}\n{}\n\n",
        style.paint(Tone::Strong, &title),
        style.paint(Tone::Dim, &profiles)
    )
}

fn entry(finding: &Finding, widest: usize, style: Style) -> String {
    let word = word(finding.outcome);
    let mark = style.paint(Tone::of_outcome(finding.outcome), &format!("{word:<7}"));
    let subject = printable(&finding.subject);
    let message = printable(&finding.message);
    let id = &finding.id;
    let indent = " ".repeat(8);
    if matches!(finding.outcome, Outcome::Pass | Outcome::Skip) {
        // What is well takes no room from what is not.
        let line = format!("{id:<widest$}  {subject}: {message}");
        // Under the subject, unless that leaves less than half of a narrow terminal.
        let hang = match indent.len() + widest + 2 {
            hang if hang * 2 <= style.width => " ".repeat(hang),
            _ => indent.clone(),
        };
        return format!("{mark} {}\n", wrap(&line, style.width, indent.len(), &hang));
    }
    let mut text = format!("{mark} {id:<widest$}  {subject}\n");
    let mut add = |label: &str, body: &str| {
        let hang = format!("{indent}{}", " ".repeat(label.len()));
        text.push_str(&format!(
            "{indent}{label}{}\n",
            wrap(body, style.width, hang.len(), &hang)
        ));
    };
    add("", &message);
    for evidence in &finding.evidence {
        add(
            "seen:  ",
            &printable(&format!("{}: {}", evidence.source, evidence.value)),
        );
    }
    if let Some(needs) = &finding.needs {
        add("needs: ", &printable(needs));
    }
    if let Some(fix) = &finding.fix {
        for line in fix.command.lines() {
            // A command is copied whole: it is never broken.
            text.push_str(&format!("{indent}fix:   {}\n", printable(line)));
        }
    }
    text
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

fn summary(summary: &Summary, style: Style) -> String {
    let Summary {
        pass,
        fail,
        warn,
        info,
        unknown,
        skip,
    } = summary;
    let parts = [
        (Outcome::Pass, pass, "pass"),
        (Outcome::Fail, fail, "fail"),
        (Outcome::Warn, warn, "warn"),
        (Outcome::Info, info, "info"),
        (Outcome::Unknown, unknown, "unknown"),
        (Outcome::Skip, skip, "skip"),
    ]
    .map(|(outcome, count, word)| {
        let text = format!("{count} {word}");
        match count {
            0 => text,
            _ => style.paint(Tone::of_outcome(outcome), &text),
        }
    });
    parts.join(", ") + "\n"
}

/// The checks there are: id, weight, rule.
pub fn list<'a>(checks: impl Iterator<Item = (&'a str, Severity, &'a str)> + Clone) -> String {
    let widest = checks.clone().map(|(id, ..)| id.len()).max().unwrap_or(0);
    checks
        .map(|(id, severity, rule)| {
            let severity = match severity {
                Severity::Error => "error",
                Severity::Warn => "warn",
                Severity::Info => "info",
            };
            format!("{id:<widest$}  {severity:<5}  {rule}\n")
        })
        .collect()
}
