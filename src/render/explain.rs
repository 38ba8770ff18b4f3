//! Causes of a text's symptoms with evidence and commands, and the description of a check, for people.

use super::Style;
use super::text::{Tone, printable, wrap};
use crate::model::{
    ExplainReport, ExplainedCheck, Finding, Outcome, Severity, Standing, SymptomMatch,
};

/// Matches shown in full; of the others only the check.
const SHOWN: usize = 6;

/// Findings shown for one check.
const FINDINGS: usize = 4;

/// Indent of the lines below a match.
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
        page.push_str(&nothing(report, style));
        return page;
    }
    page.push_str(&header(report, style));
    let (excluded, possible): (Vec<&SymptomMatch>, Vec<&SymptomMatch>) = report
        .matches
        .iter()
        .partition(|found| found.standing == Some(Standing::Excluded));
    let mut shown: Vec<&str> = Vec::new();
    for found in possible.iter().take(SHOWN) {
        page.push('\n');
        page.push_str(&one(found, style));
        if report.host.is_some() {
            page.push_str(&here(found, report, &mut shown, style));
        } else {
            page.push_str(&labelled("checks:", &found.checks.join(", "), style));
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
    page.push_str(&footer(
        report,
        possible.get(SHOWN..).unwrap_or_default(),
        style,
    ));
    page
}

/// No match: what to do next.
fn nothing(report: &ExplainReport, style: Style) -> String {
    let lines = report.read.map_or(0, |read| read.lines);
    let text = format!(
        "No known symptom in {} of {}. 'gdr doctor' checks the machine; a longer log may show more (NCCL_DEBUG=INFO, \
         UCX_LOG_LEVEL=info, dmesg).",
        counted(lines, "line"),
        printable(&report.asked)
    );
    wrap(&text, style.width, 0, "") + "\n"
}

fn header(report: &ExplainReport, style: Style) -> String {
    let lines = report.read.map_or(0, |read| read.lines);
    let title = format!(
        "gdr explain: {} in {} of {}",
        counted(report.matches.len() as u64, "cause"),
        counted(lines, "line"),
        printable(&report.asked)
    );
    let mut page = style.paint(Tone::Strong, &wrap(&title, style.width, 0, "")) + "\n";
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
        let looked = format!("machine: {name}{source}; profiles: {profiles}");
        page.push_str(&style.paint(Tone::Dim, &wrap(&looked, style.width, 0, "  ")));
        page.push('\n');
    }
    page
}

/// A match: its cause, the line, and a source.
fn one(found: &SymptomMatch, style: Style) -> String {
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
    text.push_str(&labelled("source:", &printable(&found.source), style));
    text
}

/// The findings of a match's checks. A check shown with an earlier match is only named.
fn here<'a>(
    found: &'a SymptomMatch,
    report: &ExplainReport,
    shown: &mut Vec<&'a str>,
    style: Style,
) -> String {
    let mut text = String::new();
    let (mut fine, mut skipped, mut above) = (Vec::new(), Vec::new(), Vec::new());
    for id in &found.checks {
        if shown.contains(&id.as_str()) {
            above.push(id.as_str());
            continue;
        }
        shown.push(id);
        let findings: Vec<&Finding> = report
            .findings
            .iter()
            .filter(|finding| finding.id == *id)
            .collect();
        let bad: Vec<&&Finding> = findings
            .iter()
            .filter(|finding| is_shown(finding))
            .collect();
        for finding in bad.iter().take(FINDINGS) {
            text.push_str(&entry(finding, style));
        }
        if bad.len() > FINDINGS {
            let more = format!(
                "and {} more of {id}: gdr doctor shows them",
                bad.len() - FINDINGS
            );
            text.push_str(&labelled("", &more, style));
        }
        if bad.is_empty() && !findings.is_empty() {
            match findings
                .iter()
                .all(|finding| finding.outcome == Outcome::Skip)
            {
                true => skipped.push(id.as_str()),
                false => fine.push(id.as_str()),
            }
        }
    }
    for (label, ids) in [("passes:", fine), ("n/a:", skipped), ("above:", above)] {
        if !ids.is_empty() {
            text.push_str(&labelled(label, &ids.join(", "), style));
        }
    }
    text
}

fn is_shown(finding: &Finding) -> bool {
    !matches!(finding.outcome, Outcome::Pass | Outcome::Skip)
}

/// A finding with its evidence and fix.
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
        let seen = format!("{}: {}", evidence.source, evidence.value);
        text.push_str(&labelled("evidence:", &printable(&seen), style));
    }
    if let Some(needs) = &finding.needs {
        text.push_str(&labelled("needs:", &printable(needs), style));
    }
    if let Some(fix) = &finding.fix {
        let id = fix.id().map(|id| format!("gdr fix {id}"));
        // Never wrapped: people paste it.
        for command in id.iter().chain(&fix.manual().command) {
            text.push_str(&format!("{:12}fix:     {}\n", "", printable(command)));
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
        &format!("gdr explain {} describes the fix", finding.id),
        style,
    )
}

fn footer(report: &ExplainReport, more: &[&SymptomMatch], style: Style) -> String {
    let mut text = String::new();
    if !more.is_empty() {
        let more: Vec<&str> = more.iter().map(|found| found.check.as_str()).collect();
        text.push_str(&format!("Less likely: {}. ", more.join(", ")));
    }
    let wrong = |finding: &Finding| matches!(finding.outcome, Outcome::Fail | Outcome::Warn);
    text.push_str(match (&report.host, report.findings.iter().any(wrong)) {
        (None, _) => "gdr explain ID describes a check and its fix.",
        (Some(_), true) => "Fix what fails or warns above first; gdr explain ID describes a check.",
        (Some(_), false) => {
            "None of these checks finds a fault on this machine. If the text comes from another machine, name a record of it: \
             --from FILE (see gdr snapshot)."
        }
    });
    wrap(&text, style.width, 0, "") + "\n"
}

/// The description of a check.
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

/// A label and its text, wrapped below the text's start.
fn labelled(label: &str, body: &str, style: Style) -> String {
    const WIDE: usize = 8;
    let start = match label {
        "log:" | "source:" | "checks:" | "passes:" | "n/a:" | "above:" | "rule:" | "why:"
        | "read:" | "fix:" | "see:" => INDENT,
        _ => INDENT + 8,
    };
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

fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}
