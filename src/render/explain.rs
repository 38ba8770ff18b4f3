//! Explanations for people: the causes found in a text with findings and fixes, or a check.

use super::text::{Tone, counted, printable, wrap};
use super::{Style, job};
use crate::model::{
    ExplainReport, ExplainedCheck, Finding, Likelihood, Outcome, Severity, Standing, SymptomMatch,
};

/// Maximum number of causes shown in full; the checks of the others are listed.
const MAX_CAUSES: usize = 6;

/// Maximum number of findings shown in full for one check.
const MAX_FINDINGS: usize = 4;

/// Maximum number of remedies for a cause that no finding confirms.
const MAX_REMEDIES: usize = 2;

/// Indentation of the text below a match.
const INDENT: usize = 4;

/// A cause and the checks that decide it.
type Cause<'a> = Vec<&'a SymptomMatch>;

pub fn table(report: &ExplainReport, style: Style) -> String {
    if !report.checks.is_empty() {
        let pages: Vec<String> =
            report.checks.iter().map(|check| explained(check, style)).collect();
        return pages.join("\n");
    }
    let (excluded, possible): (Vec<Cause>, Vec<Cause>) =
        by_cause(&report.matches).into_iter().partition(is_excluded);
    let mut page = report.job.as_ref().map_or(String::new(), |of| job::page(of, style) + "\n");
    page.push_str(&header(report, excluded.len() + possible.len(), style));
    for cause in possible.iter().take(MAX_CAUSES) {
        page.push('\n');
        page.push_str(&entry(cause, report, style));
    }
    page.push_str(&exclusions(&excluded, report, style));
    page.push_str(&uncovered(report, style));
    page.push_str(&questions(report, style));
    page.push_str(&footer(report, possible.get(MAX_CAUSES..).unwrap_or_default(), style));
    page
}

/// The matches of each cause, in the order of the best.
fn by_cause(matches: &[SymptomMatch]) -> Vec<Cause<'_>> {
    let mut causes: Vec<Cause<'_>> = Vec::new();
    for found in matches {
        match causes.iter_mut().find(|cause| cause[0].cause == found.cause) {
            Some(cause) => cause.push(found),
            None => causes.push(vec![found]),
        }
    }
    causes
}

/// True if every check of the cause passes on the machine.
fn is_excluded(cause: &Cause<'_>) -> bool {
    let passes = |found: &&SymptomMatch| found.standing == Some(Standing::Excluded);
    cause.iter().all(passes)
}

/// True if a check of the cause fails or warns on the machine.
fn is_confirmed(cause: &Cause<'_>) -> bool {
    cause.iter().any(|found| found.standing == Some(Standing::Confirmed))
}

fn ids<'a>(matches: &[&'a SymptomMatch]) -> Vec<&'a str> {
    matches.iter().map(|found| found.check.as_str()).collect()
}

fn header(report: &ExplainReport, causes: usize, style: Style) -> String {
    let lines = counted(report.read.map_or(0, |read| read.lines), "line");
    let asked = printable(&report.asked);
    if causes == 0 {
        let has_failed =
            report.job.as_ref().is_some_and(|job| job.certain_failures().next().is_some());
        let text = if has_failed {
            format!("No further symptom in {lines} of {asked}: the job's failure is above.")
        } else {
            format!("No known symptom in {lines} of {asked}.")
        };
        return wrap(&text, style.width, 0, "") + "\n";
    }
    let title = format!("gdr explain: {} in {lines} of {asked}", counted(causes, "cause"));
    let title = wrap(&title, style.width, 0, "");
    let checked = match (&report.host, &report.not_inspected) {
        (Some(_), _) => {
            let profiles = printable(&report.profiles.join(", "));
            format!("checked: {}; profiles: {profiles}", machine(report))
        }
        (None, Some(reason)) => printable(reason),
        (None, None) => "checked: no machine".to_owned(),
    };
    let checked = style.paint(Tone::Dim, &wrap(&checked, style.width, 0, "  "));
    format!("{}\n{checked}\n", style.paint(Tone::Strong, &title))
}

/// The machine that was inspected.
fn machine(report: &ExplainReport) -> String {
    let Some(host) = &report.host else {
        return "no machine".to_owned();
    };
    let name = host.name.as_deref().map(printable);
    match (host.source.as_str(), name) {
        ("live", None) => "this machine".to_owned(),
        ("live", Some(name)) => format!("this machine ({name})"),
        (source, None) => format!("the recorded machine of {}", printable(source)),
        (source, Some(name)) => format!("the recorded machine {name} ({})", printable(source)),
    }
}

/// A cause: its line, its source, what its checks found, and how to repair it.
fn entry(cause: &Cause<'_>, report: &ExplainReport, style: Style) -> String {
    let Some(best) = cause.iter().max_by_key(|found| found.score) else {
        return String::new();
    };
    let word = match best.likelihood {
        // The check that decides best speaks against it.
        _ if best.standing == Some(Standing::Excluded) && !is_confirmed(cause) => "possible",
        Likelihood::Certain => "certain",
        Likelihood::Likely => "likely",
        Likelihood::Possible => "possible",
    };
    let head = format!("{word}: {}", printable(&best.cause));
    let head = wrap(&head, style.width, 0, "    ");
    let mut text = style.paint(Tone::Strong, &head) + "\n";
    let times = match best.count {
        1 => String::new(),
        count => format!(" and {} more", counted(count - 1, "line")),
    };
    let place = printable(&best.line.place());
    let line = format!("{place}{times}: {}", printable(&best.line.text));
    text.push_str(&labelled("text:", &line, style));
    text.push_str(&labelled("source:", &printable(&best.source), style));
    if report.host.is_some() {
        for id in ids(cause) {
            text.push_str(&found_by(id, report, style));
        }
        text.push_str(&undecided(cause, report, style));
    } else {
        // A command is not wrapped, so it can be pasted.
        let command = format!("gdr doctor --only {}", ids(cause).join(","));
        text.push_str(&format!("{:INDENT$}{:<9} {command}\n", "", "check:"));
    }
    if !is_confirmed(cause) {
        text.push_str(&remedies(cause, style));
    }
    text
}

/// What a check found.
fn found_by(id: &str, report: &ExplainReport, style: Style) -> String {
    let mut text = String::new();
    let of_check = report.findings.iter().filter(|finding| finding.id == id);
    let (bad, rest): (Vec<&Finding>, Vec<&Finding>) = of_check.partition(|finding| {
        matches!(finding.outcome, Outcome::Fail | Outcome::Warn | Outcome::Info)
    });
    for found in bad.iter().take(MAX_FINDINGS) {
        text.push_str(&finding(found, report, style));
    }
    if bad.len() > MAX_FINDINGS {
        let more = bad.len() - MAX_FINDINGS;
        let more = format!("and {more} more of {id}: gdr doctor shows them");
        text.push_str(&labelled("", &more, style));
    }
    let is_undecided = report.undecided.iter().any(|undecided| undecided.check == id);
    if let Some(passed) = rest.first().filter(|_| bad.is_empty() && !is_undecided) {
        let passed = format!("{id}: {}", printable(&passed.message));
        text.push_str(&labelled("passed:", &passed, style));
    }
    text
}

/// The checks of a cause that could not be checked, by reason.
fn undecided(cause: &Cause<'_>, report: &ExplainReport, style: Style) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for id in ids(cause) {
        let of_check = report.undecided.iter().find(|undecided| undecided.check == id);
        let Some(reason) = of_check.map(|undecided| undecided.reason.as_str()) else {
            continue;
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, ids)) => ids.push(id),
            None => reasons.push((reason, vec![id])),
        }
    }
    let lines = reasons.into_iter().map(|(reason, ids)| {
        let ids = ids.join(", ");
        let why = format!("{ids} could not be checked here: {}", printable(reason));
        labelled("unknown:", &why, style)
    });
    lines.collect()
}

/// How to repair what the first checks of a cause would find.
fn remedies(cause: &Cause<'_>, style: Style) -> String {
    let open = cause.iter().filter(|found| found.standing != Some(Standing::Excluded));
    open.filter(|found| !found.remedy.is_empty())
        .take(MAX_REMEDIES)
        .map(|found| {
            let text = format!("{}: {}", found.check, printable(&found.remedy));
            labelled("fix:", &text, style)
        })
        .collect()
}

/// A finding with evidence and fix.
fn finding(finding: &Finding, report: &ExplainReport, style: Style) -> String {
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
    let mut text = format!("    {mark} {}\n", wrap(&subject, style.width, 12, &" ".repeat(12)));
    text.push_str(&labelled("", &printable(&finding.message), style));
    for evidence in &finding.evidence {
        let value = format!("{}: {}", evidence.source, evidence.value);
        text.push_str(&labelled("evidence:", &printable(&value), style));
    }
    let mut has_fix = false;
    if let Some(fix) = &finding.fix {
        let id = fix.id().map(|id| format!("gdr fix {id}"));
        // A command is not wrapped, so it can be pasted.
        for command in id.iter().chain(&fix.manual().command) {
            text.push_str(&format!("{:12}fix:      {}\n", "", printable(command)));
            has_fix = true;
        }
        if let Some(advice) = &fix.manual().advice {
            text.push_str(&labelled("advice:", &printable(advice), style));
            has_fix = true;
        }
    }
    let of_check = report.matches.iter().find(|found| found.check == finding.id);
    match of_check.filter(|found| !has_fix && !found.remedy.is_empty()) {
        Some(found) => text + &labelled("advice:", &printable(&found.remedy), style),
        None => text,
    }
}

/// Causes that the machine does not have.
fn exclusions(excluded: &[Cause<'_>], report: &ExplainReport, style: Style) -> String {
    if excluded.is_empty() {
        return String::new();
    }
    let title = format!("Not the cause on {}, because its checks pass:", machine(report));
    let mut text = format!("\n{}\n", wrap(&title, style.width, 0, "  "));
    for cause in excluded {
        let line = format!("    {}", printable(&cause[0].cause));
        let line = wrap(&line, style.width, 0, "    ");
        text.push_str(&format!("{}\n", style.paint(Tone::Dim, &line)));
        text.push_str(&labelled("passed:", &ids(cause).join(", "), style));
    }
    text
}

/// Failures that gdr has no check for.
fn uncovered(report: &ExplainReport, style: Style) -> String {
    let failures = report.uncovered.iter().map(|failure| {
        let text = format!(
            "gdr has no check for this ({}): {}",
            printable(&failure.line.place()),
            printable(&failure.subject)
        );
        format!("\n{}\n", wrap(&text, style.width, 0, "    "))
    });
    failures.collect()
}

/// What the words of the text suggest, too weakly for a cause.
fn questions(report: &ExplainReport, style: Style) -> String {
    let questions = report.questions.iter().map(|found| {
        let text = format!("possibly: {}", printable(&found.cause));
        let text = wrap(&text, style.width, 0, "    ");
        format!("\n{text}\n    to find out: gdr doctor --only {}\n", found.check)
    });
    questions.collect()
}

fn footer(report: &ExplainReport, more: &[Cause<'_>], style: Style) -> String {
    let mut sentences: Vec<String> = Vec::new();
    if !more.is_empty() {
        sentences.push(format!("Less likely: {}.", ids(&more.concat()).join(", ")));
    }
    let wrong = |finding: &Finding| matches!(finding.outcome, Outcome::Fail | Outcome::Warn);
    let is_live = report.host.as_ref().is_some_and(|host| host.source == "live");
    if report.matches.is_empty() {
        sentences.push(
            "'gdr doctor' checks the machine anyway; a more verbose log may help (NCCL_DEBUG=INFO, \
             UCX_LOG_LEVEL=info, dmesg)."
                .to_owned(),
        );
    } else if is_live && !report.findings.iter().any(wrong) {
        sentences.push(
            "If the text is from another machine, check that one with --from FILE (see gdr snapshot)."
                .to_owned(),
        );
    }
    if sentences.is_empty() {
        String::new()
    } else {
        format!("\n{}\n", wrap(&sentences.join(" "), style.width, 0, ""))
    }
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
    // What belongs to a finding is indented below it.
    let (label, start) = match label {
        "" | "evidence:" => (label, INDENT + 8),
        "advice:" => ("fix:", INDENT + 8),
        _ => (label, INDENT),
    };
    // A text without a label is indented like the labels.
    let column = if label.is_empty() { start } else { start + WIDE + 1 };
    let hang = " ".repeat(column);
    let lead = match label {
        "" => hang.clone(),
        label => format!("{:start$}{label:<WIDE$} ", ""),
    };
    format!("{lead}{}\n", wrap(body, style.width, column, &hang))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Host, Quote};

    fn found(check: &str, score: u8, standing: Standing) -> SymptomMatch {
        SymptomMatch {
            check: check.to_owned(),
            score,
            likelihood: Likelihood::Certain,
            cause: "The port is down.".to_owned(),
            source: "https://example.org".to_owned(),
            symptom: Some("port".to_owned()),
            words: Vec::new(),
            sources: Vec::new(),
            line: Quote { number: 3, text: "no port".to_owned(), file: None },
            count: 1,
            standing: Some(standing),
            remedy: "Plug the cable in.".to_owned(),
        }
    }

    fn page(standings: [Standing; 2]) -> String {
        let report = ExplainReport {
            asked: "text".to_owned(),
            job: None,
            matches: vec![
                found("rdma.port", 90, standings[0]),
                found("rdma.netns", 85, standings[1]),
            ],
            questions: Vec::new(),
            uncovered: Vec::new(),
            checks: Vec::new(),
            host: Some(Host {
                source: "live".to_owned(),
                name: Some("node7".to_owned()),
                ..Host::default()
            }),
            not_inspected: None,
            profiles: vec!["rdma".to_owned()],
            findings: Vec::new(),
            undecided: Vec::new(),
            read: None,
        };
        let style = Style { color: false, width: 100 };
        table(&report, style)
    }

    /// A cause is named once, and excluded only if each of its checks passes.
    #[test]
    fn one_entry_for_each_cause() {
        use Standing::{Confirmed, Excluded, Open};
        for (standings, expected, absent) in [
            (
                [Excluded, Excluded],
                "Not the cause on this machine (node7), because its checks pass:\n    The port is down.",
                "fix:",
            ),
            ([Excluded, Open], "possible: The port is down.", "Not the cause"),
            ([Open, Excluded], "certain: The port is down.", "Not the cause"),
            ([Confirmed, Excluded], "certain: The port is down.", "Not the cause"),
        ] {
            let page = page(standings);
            assert!(page.contains(expected), "{page}");
            assert!(!page.contains(absent), "{page}");
            assert_eq!(page.matches("The port is down.").count(), 1, "{page}");
        }
    }
}
