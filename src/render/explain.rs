//! Explanations for people: the causes found in a text with findings and fixes, or a check.

use super::Style;
use super::text::{Tone, counted, printable, wrap};
use crate::model::{
    ExplainReport, ExplainedCheck, Finding, Outcome, Severity, Standing, SymptomMatch,
};

/// Maximum number of causes shown in full; the checks of the others are listed.
const MAX_CAUSES: usize = 6;

/// Number of checks named at the top.
const FIRST_CHECKS: usize = 3;

/// Maximum number of findings shown in full for one check.
const MAX_FINDINGS: usize = 4;

/// Indentation of the text below a match.
const INDENT: usize = 4;

pub fn table(report: &ExplainReport, style: Style) -> String {
    if !report.checks.is_empty() {
        let pages: Vec<String> = report
            .checks
            .iter()
            .map(|check| explained(check, style))
            .collect();
        return pages.join("\n");
    }
    let mut page = String::new();
    if report.matches.is_empty() {
        page.push_str(&no_match(report, style));
        return page;
    }
    page.push_str(&header(report, style));
    let (excluded, possible): (Vec<&SymptomMatch>, Vec<&SymptomMatch>) = report
        .matches
        .iter()
        .partition(|found| found.standing == Some(Standing::Excluded));
    let causes = by_cause(&possible);
    for cause in causes.iter().take(MAX_CAUSES) {
        page.push('\n');
        page.push_str(&symptom(cause[0], style));
        if report.host.is_some() {
            page.push_str(&findings_of(cause, report, style));
        } else {
            page.push_str(&labelled("checks:", &ids(cause).join(", "), style));
        }
    }
    if !excluded.is_empty() {
        page.push_str("\nNot the cause on this machine, because the check passes:\n");
    }
    for found in excluded {
        let line = format!("{}: {}", found.check, printable(&found.cause));
        let line = wrap(&line, style.width, INDENT, "    ");
        page.push_str(&format!(
            "{:>3} {}\n",
            found.score,
            style.paint(Tone::Dim, &line)
        ));
    }
    page.push('\n');
    let more = causes.get(MAX_CAUSES..).unwrap_or_default();
    page.push_str(&footer(report, &ids(&more.concat()), style));
    page
}

/// The matches of each cause, in the order of the best.
fn by_cause<'a>(matches: &[&'a SymptomMatch]) -> Vec<Vec<&'a SymptomMatch>> {
    let mut causes: Vec<Vec<&SymptomMatch>> = Vec::new();
    for found in matches {
        match causes
            .iter_mut()
            .find(|cause| cause[0].cause == found.cause)
        {
            Some(cause) => cause.push(found),
            None => causes.push(vec![found]),
        }
    }
    causes
}

fn ids<'a>(matches: &[&'a SymptomMatch]) -> Vec<&'a str> {
    matches.iter().map(|found| found.check.as_str()).collect()
}

/// The message if nothing matched.
fn no_match(report: &ExplainReport, style: Style) -> String {
    let lines = report.read.map_or(0, |read| read.lines);
    let text = format!(
        "No known symptom in {} of {}. 'gdr doctor' checks the machine anyway; a more verbose log may help \
         (NCCL_DEBUG=INFO, UCX_LOG_LEVEL=info, dmesg).",
        counted(lines, "line"),
        printable(&report.asked)
    );
    wrap(&text, style.width, 0, "") + "\n"
}

fn header(report: &ExplainReport, style: Style) -> String {
    let lines = report.read.map_or(0, |read| read.lines);
    let title = format!(
        "gdr explain: {} in {} of {}",
        counted(
            by_cause(&report.matches.iter().collect::<Vec<_>>()).len(),
            "cause"
        ),
        counted(lines, "line"),
        printable(&report.asked)
    );
    let mut page = style.paint(Tone::Strong, &wrap(&title, style.width, 0, "")) + "\n";
    let checks: Vec<&str> = (report.matches.iter())
        .take(FIRST_CHECKS)
        .map(|found| found.check.as_str())
        .collect();
    if report.host.is_none() {
        let first = format!("check first: {}", checks.join(", "));
        page.push_str(&format!("{}\n", wrap(&first, style.width, 0, "  ")));
    }
    if let Some(host) = &report.host {
        let source = match host.source.as_str() {
            "live" => "this machine".to_owned(),
            source => format!("recorded: {}", printable(source)),
        };
        let name = host
            .name
            .as_deref()
            .map_or_else(String::new, |name| format!("{}, ", printable(name)));
        let profiles = printable(&report.profiles.join(", "));
        let checked = format!("checked: {name}{source}; profiles: {profiles}");
        page.push_str(&style.paint(Tone::Dim, &wrap(&checked, style.width, 0, "  ")));
        page.push('\n');
    }
    page
}

/// A match: its cause, line and source.
fn symptom(found: &SymptomMatch, style: Style) -> String {
    let cause = printable(&found.cause);
    let head = format!(
        "{:>3} {}",
        found.score,
        wrap(&cause, style.width, INDENT, "    ")
    );
    let mut text = style.paint(Tone::Strong, &head) + "\n";
    let times = match found.count {
        1 => String::new(),
        count => format!(" and {} more", counted(count - 1, "line")),
    };
    let line = format!(
        "line {}{times}: {}",
        found.line.number,
        printable(&found.line.text)
    );
    text.push_str(&labelled("log:", &line, style));
    if !found.words.is_empty() {
        text.push_str(&labelled("about:", &found.words.join(", "), style));
    }
    text.push_str(&labelled("source:", &printable(&found.source), style));
    text
}

/// Findings on the machine for the checks of a cause.
fn findings_of(cause: &[&SymptomMatch], report: &ExplainReport, style: Style) -> String {
    let mut text = String::new();
    let (mut fine, mut skipped) = (Vec::new(), Vec::new());
    for id in ids(cause) {
        let findings: Vec<&Finding> = report
            .findings
            .iter()
            .filter(|finding| finding.id == id)
            .collect();
        let bad: Vec<&&Finding> = findings
            .iter()
            .filter(|finding| is_problem(finding))
            .collect();
        for finding in bad.iter().take(MAX_FINDINGS) {
            text.push_str(&entry(finding, style));
        }
        if bad.len() > MAX_FINDINGS {
            let more = format!(
                "and {} more of {id}: gdr doctor shows them",
                bad.len() - MAX_FINDINGS
            );
            text.push_str(&labelled("", &more, style));
        }
        if bad.is_empty() && !findings.is_empty() {
            match findings
                .iter()
                .all(|finding| finding.outcome == Outcome::Skip)
            {
                true => skipped.push(id),
                false => fine.push(id),
            }
        }
    }
    for (label, ids) in [("passed:", fine), ("n/a:", skipped)] {
        if !ids.is_empty() {
            text.push_str(&labelled(label, &ids.join(", "), style));
        }
    }
    text
}

fn is_problem(finding: &Finding) -> bool {
    !matches!(finding.outcome, Outcome::Pass | Outcome::Skip)
}

/// A finding with evidence and fix.
fn entry(finding: &Finding, style: Style) -> String {
    let word = match finding.outcome {
        Outcome::Pass => "pass",
        Outcome::Fail => "FAIL",
        Outcome::Warn => "WARN",
        Outcome::Info => "info",
        Outcome::Unknown => "UNKNOWN",
        Outcome::Skip => "skip",
    };
    let mark = style.paint(Tone::of_outcome(finding.outcome), &format!("{word:<7}"));
    let subject = format!("{}  {}", finding.id, printable(&finding.subject));
    let mut text = format!(
        "    {mark} {}\n",
        wrap(&subject, style.width, 12, &" ".repeat(12))
    );
    text.push_str(&labelled("", &printable(&finding.message), style));
    for evidence in &finding.evidence {
        let value = format!("{}: {}", evidence.source, evidence.value);
        text.push_str(&labelled("evidence:", &printable(&value), style));
    }
    if let Some(needs) = &finding.needs {
        text.push_str(&labelled("needs:", &printable(needs), style));
    }
    if let Some(fix) = &finding.fix {
        let id = fix.id().map(|id| format!("gdr fix {id}"));
        // A command is not wrapped, so it can be pasted.
        for command in id.iter().chain(&fix.manual().command) {
            text.push_str(&format!("{:12}fix:      {}\n", "", printable(command)));
        }
        if let Some(advice) = &fix.manual().advice {
            text.push_str(&labelled("fix:", &printable(advice), style));
        }
    }
    if text.contains("fix:") || !matches!(finding.outcome, Outcome::Fail | Outcome::Warn) {
        return text;
    }
    text + &labelled(
        "fix:",
        &format!("gdr explain {} shows how to repair it", finding.id),
        style,
    )
}

fn footer(report: &ExplainReport, more: &[&str], style: Style) -> String {
    let mut text = String::new();
    if !more.is_empty() {
        text.push_str(&format!("Less likely: {}. ", more.join(", ")));
    }
    let wrong = |finding: &Finding| matches!(finding.outcome, Outcome::Fail | Outcome::Warn);
    text.push_str(match (&report.host, report.findings.iter().any(wrong)) {
        (None, _) => "gdr explain ID shows what a check reads and how to repair it.",
        (Some(_), true) => {
            "Repair the failures and warnings above first; gdr explain ID shows details of a check."
        }
        (Some(_), false) => {
            "These checks found no problem on the checked machine. If the text is from another one, \
             check that one with --from FILE (see gdr snapshot)."
        }
    });
    wrap(&text, style.width, 0, "") + "\n"
}

/// A check: rule, reason, sources, fix, references.
fn explained(check: &ExplainedCheck, style: Style) -> String {
    let severity = match check.severity {
        Severity::Error => "error",
        Severity::Warn => "warning",
        Severity::Info => "information",
    };
    let mut text = format!("{}  ({severity})\n", style.paint(Tone::Strong, &check.id));
    for (label, body) in [
        ("rule:", &check.rule),
        ("why:", &check.why),
        ("read:", &check.sources),
        ("fix:", &check.remedy),
    ] {
        if !body.is_empty() {
            text.push_str(&labelled(label, &printable(body), style));
        }
    }
    for reference in &check.references {
        text.push_str(&labelled("see:", &printable(reference), style));
    }
    text
}

/// A label and its text, wrapped below its start.
fn labelled(label: &str, body: &str, style: Style) -> String {
    const WIDE: usize = 9;
    let start = match label {
        "log:" | "about:" | "source:" | "checks:" | "passed:" | "n/a:" | "rule:" | "why:"
        | "read:" | "fix:" | "see:" => INDENT,
        _ => INDENT + 8,
    };
    // A text without a label is indented like the labels.
    let column = if label.is_empty() {
        start
    } else {
        start + WIDE + 1
    };
    let hang = " ".repeat(column);
    let lead = match label {
        "" => hang.clone(),
        label => format!("{:start$}{label:<WIDE$} ", ""),
    };
    format!("{lead}{}\n", wrap(body, style.width, column, &hang))
}
