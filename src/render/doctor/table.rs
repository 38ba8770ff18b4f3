//! The report for people: the verdict, the failures with their fixes, the numbers of other results, and the next step.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::group::{Group, groups};
use super::{
    Report, Shown, consequences, explained, failures, left_out, missing, root, steps, word,
};
use crate::model::{Finding, Host, Outcome, Readiness, ReadyState, Remedy};
use crate::render::text::{Tone, counted, printable, wrap};
use crate::render::{Style, comparison};

const INDENT: usize = 8;

/// Maximum number of subjects and of commands listed for a group.
const MAX_SUBJECTS: usize = 32;
const MAX_COMMANDS: usize = 4;

/// Writes the report for people.
pub fn table(
    report: &Report<'_>,
    shown: &Shown<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let failures = groups(failures(report));
    out.write_all(title(report, style).as_bytes())?;
    let (tone_of_all, words) = verdict(report);
    let words = wrap(&printable(&words), style.width, 0, "    ");
    writeln!(out, "{}", style.paint(tone_of_all, &words))?;
    for readiness in &report.readiness {
        let text = wrap(&printable(&readiness.text), style.width, 2, "    ");
        writeln!(out, "  {}", style.paint(tone(readiness.state), &text))?;
    }
    if let Some(hardware) = &report.hardware {
        let line = wrap(&printable(hardware), style.width, 2, "    ");
        writeln!(out, "  {line}")?;
    }
    // The reason of a check is shown once.
    let mut reasons: BTreeSet<&str> = BTreeSet::new();
    let mut gap = "\n";
    for group in failures.iter().filter(|group| shown.has_block(group.findings[0])) {
        let first = group.findings[0];
        let new = reasons.insert(&first.id) && first.outcome != Outcome::Unknown;
        let why = if new { (shown.why)(&first.id) } else { "" };
        out.write_all(gap.as_bytes())?;
        let explains = root(report, group).and_then(explained);
        out.write_all(block(group, why, explains.as_deref(), shown, style).as_bytes())?;
        gap = "";
    }
    if shown.verbose {
        for group in &groups(consequences(report)) {
            out.write_all(block(group, "", None, shown, style).as_bytes())?;
        }
    }
    if shown.verbose {
        by_family(report, shown, style, out)?;
    }
    if let Some(comparison) = &report.comparison {
        write!(out, "\n{}", comparison::table(comparison, false, style))?;
    }
    let lines = missing(report, shown).into_iter().map(|line| format!("UNKNOWN {line}"));
    let counts = (!shown.quiet).then(|| rest(report, shown));
    for part in [lines.collect(), counts.into_iter().collect::<Vec<_>>()] {
        if !part.is_empty() {
            out.write_all(b"\n")?;
        }
        for line in part {
            writeln!(out, "{}", wrapped(&line, style))?;
        }
    }
    write_steps(report, shown, style, out)?;
    if let Some(line) = left_out(report) {
        writeln!(out, "{}", wrapped(&line, style))?;
    }
    Ok(())
}

fn wrapped(line: &str, style: Style) -> String {
    wrap(&printable(line), style.width, 0, &" ".repeat(INDENT))
}

fn write_steps(
    report: &Report<'_>,
    shown: &Shown<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let steps = steps(report, shown);
    if !steps.is_empty() {
        out.write_all(b"\n")?;
    }
    for step in steps {
        match step.command() {
            // A command is not wrapped, so it can be pasted.
            Some(command) => {
                let command = style.command(&printable(command));
                writeln!(out, "{}{command}", printable(&step.words()))?;
            }
            None => writeln!(out, "{}", wrapped(&step.to_string(), style))?,
        }
    }
    Ok(())
}

fn title(report: &Report<'_>, style: Style) -> String {
    let Host { name, os, kernel, .. } = report.host;
    let parts = [name, os, kernel].into_iter().flatten();
    let parts: Vec<String> = parts.map(|part| printable(part)).collect();
    let recording = report.host.recording();
    let what =
        recording.map_or_else(String::new, |source| format!(" (recorded: {})", printable(&source)));
    let host =
        if parts.is_empty() { "a machine without a name".to_owned() } else { parts.join(", ") };
    let title = wrap(&format!("gdr doctor: {host}{what}"), style.width, 0, "  ");
    format!("{}\n", style.paint(Tone::Strong, &title))
}

/// The states of the profiles, worst first, and the number of problems.
pub fn verdict(report: &Report<'_>) -> (Tone, String) {
    let (failures, warnings) = (report.summary.fail, report.summary.warn);
    let mut problems = Vec::new();
    if failures > 0 {
        problems.push(counted(failures, "failure"));
    }
    if warnings > 0 {
        problems.push(counted(warnings, "warning"));
    }
    let states = [
        (ReadyState::NotReady, "NOT READY"),
        (ReadyState::Partly, "PARTLY READY"),
        (ReadyState::Undetermined, "UNDETERMINED"),
        (ReadyState::Ready, "READY"),
    ];
    let of_state = |(state, word): (ReadyState, &str)| {
        let profiles = report.readiness.iter().filter(|one| one.state == state);
        let names: Vec<&str> = profiles.map(|one: &Readiness| one.profile.as_str()).collect();
        (!names.is_empty()).then(|| format!("{word} for {}", names.join(", ")))
    };
    let verdicts: Vec<String> = states.into_iter().filter_map(of_state).collect();
    let worst =
        states.iter().find(|(state, _)| report.readiness.iter().any(|one| one.state == *state));
    let tone = match worst {
        Some((state, _)) => tone(*state),
        None if failures > 0 => Tone::Bad,
        None => Tone::Fair,
    };
    let text = match (verdicts.is_empty(), problems.is_empty()) {
        (true, true) => format!("No failures in {}", counted(report.findings.len(), "finding")),
        (true, false) => format!("Of the selected checks: {}", problems.join(", ")),
        (false, true) => verdicts.join("; "),
        (false, false) => format!("{}: {}", verdicts.join("; "), problems.join(", ")),
    };
    (tone, text)
}

fn tone(state: ReadyState) -> Tone {
    match state {
        ReadyState::Ready => Tone::Good,
        ReadyState::Partly | ReadyState::Undetermined => Tone::Fair,
        ReadyState::NotReady => Tone::Bad,
    }
}

/// Labelled lines below a mark.
struct Lines {
    text: String,
    style: Style,
}

impl Lines {
    const LABEL: usize = 10;

    fn add(&mut self, label: &str, body: &str) {
        let lead = self.lead(label);
        let hang = " ".repeat(lead.len());
        self.text.push_str(&format!("{lead}{}\n", wrap(body, self.style.width, lead.len(), &hang)));
    }

    /// A command is not wrapped, so it can be pasted.
    fn add_command(&mut self, label: &str, command: &str) {
        let command = self.style.command(&printable(command));
        self.text.push_str(&format!("{}{command}\n", self.lead(label)));
    }

    fn add_evidence(&mut self, finding: &Finding) {
        for evidence in &finding.evidence {
            self.add("evidence:", &printable(&format!("{}: {}", evidence.source, evidence.value)));
        }
    }

    fn lead(&self, label: &str) -> String {
        match label {
            "" => " ".repeat(INDENT),
            // Align below the previous label.
            " " => " ".repeat(INDENT + Self::LABEL),
            label => format!("{:INDENT$}{label:<width$}", "", width = Self::LABEL),
        }
    }
}

fn mark(outcome: Outcome, style: Style) -> String {
    style.paint(Tone::of_outcome(outcome), &format!("{:<7}", word(outcome)))
}

/// A block: finding, reason, evidence, fix.
fn block(
    group: &Group<'_>,
    why: &str,
    explains: Option<&str>,
    shown: &Shown<'_>,
    style: Style,
) -> String {
    let first = group.findings[0];
    let mut subjects: Vec<String> =
        group.findings.iter().map(|one| printable(&one.subject)).collect();
    let more = subjects.len().saturating_sub(MAX_SUBJECTS);
    if more > 0 && !shown.verbose {
        subjects.truncate(MAX_SUBJECTS);
        subjects.push(format!("{more} more"));
    }
    let head = format!("{}  {}", first.id, subjects.join(", "));
    let head = wrap(&head, style.width, INDENT, &" ".repeat(INDENT));
    let mut lines = Lines { text: format!("{} {head}\n", mark(first.outcome, style)), style };
    let others = group.findings.len() - 1;
    let same = group.findings.iter().all(|one| one.message == first.message);
    let message = if same {
        first.message.clone()
    } else if others == 1 {
        format!("{} The other one is the same.", first.message)
    } else {
        format!("{} The {others} others are the same.", first.message)
    };
    lines.add("", &printable(&message));
    if !why.is_empty() {
        lines.add("why:", why);
    }
    if let Some(explains) = explains {
        lines.add("explains:", explains);
    }
    let shown_count = if shown.verbose { group.findings.len() } else { 1 };
    group.findings.iter().take(shown_count).for_each(|one| lines.add_evidence(one));
    if let Some(needs) = &first.needs {
        lines.add("needs:", &printable(needs));
    }
    add_fix(&mut lines, group, shown);
    lines.text
}

/// The fix by gdr, then the same by hand.
fn add_fix(lines: &mut Lines, group: &Group<'_>, shown: &Shown<'_>) {
    let Some(remedy) = &group.findings[0].fix else {
        return;
    };
    let mut label = "fix:";
    if let Some(id) = remedy.id() {
        lines.add_command(label, &format!("{} {id}", shown.fix));
        label = "by hand:";
    }
    let command =
        |finding: &&'_ Finding| finding.fix.as_ref().and_then(|fix| fix.manual().command.clone());
    let mut commands: Vec<String> = group.findings.iter().filter_map(command).collect();
    commands.dedup();
    let max = if shown.verbose { usize::MAX } else { MAX_COMMANDS };
    for command in commands.iter().take(max) {
        lines.add_command(label, command);
    }
    if commands.len() > max {
        lines.add(" ", &format!("{} more commands: -v lists them", commands.len() - max));
    }
    if let Some(advice) = &remedy.manual().advice {
        let label = if commands.is_empty() { label } else { " " };
        lines.add(label, &printable(advice));
    }
}

/// Passed, informational and skipped findings, by family.
fn by_family(
    report: &Report<'_>,
    shown: &Shown<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let calm: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|finding| matches!(finding.outcome, Outcome::Pass | Outcome::Info | Outcome::Skip))
        .collect();
    let widest = calm.iter().map(|finding| finding.id.len()).max().unwrap_or(0);
    for (title, ids) in shown.families {
        let of_family: Vec<&&Finding> =
            calm.iter().filter(|finding| ids.contains(&finding.id.as_str())).collect();
        if of_family.is_empty() {
            continue;
        }
        writeln!(out, "\n{}", style.paint(Tone::Strong, title))?;
        for finding in of_family {
            out.write_all(line(finding, widest, shown, style).as_bytes())?;
        }
    }
    Ok(())
}

fn line(finding: &Finding, widest: usize, shown: &Shown<'_>, style: Style) -> String {
    let (id, subject, message) =
        (&finding.id, printable(&finding.subject), printable(&finding.message));
    let line = format!("{id:<widest$}  {subject}: {message}");
    // Align with the subject, unless that leaves less than half of a narrow terminal.
    let hang = match INDENT + widest + 2 {
        hang if hang * 2 <= style.width => hang,
        _ => INDENT,
    };
    let line = wrap(&line, style.width, INDENT, &" ".repeat(hang));
    let mut lines = Lines { text: format!("{} {line}\n", mark(finding.outcome, style)), style };
    lines.add_evidence(finding);
    if let Some(id) = finding.fix.as_ref().and_then(Remedy::id) {
        lines.add_command("fix:", &format!("{} {id}", shown.fix));
    }
    lines.text
}

/// Numbers of passed and skipped findings.
fn rest(report: &Report<'_>, shown: &Shown<'_>) -> String {
    let summary = &report.summary;
    let hidden =
        |finding: &&Finding| finding.outcome == Outcome::Unknown && !shown.has_block(finding);
    let unknown = report.findings.iter().filter(hidden).count();
    let mut parts = vec![format!("{} passed", summary.pass), format!("{} skipped", summary.skip)];
    let folded = consequences(report).len();
    if folded > 0 && !shown.verbose {
        parts.insert(0, format!("{folded} explained by those above"));
    }
    if summary.info > 0 {
        parts.insert(1, counted(summary.info, "note"));
    }
    if unknown > 0 {
        parts.push(format!("{unknown} unknown"));
    }
    let hint = if shown.verbose { "" } else { " (-v lists them)" };
    format!("{}{hint}", parts.join(", "))
}
