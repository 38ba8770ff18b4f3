//! The report for people: what each profile comes to, what stands in the way with its cure, and then the rest by family,
//! a line a finding.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{Report, Shown, counts, failures, word};
use crate::model::{Finding, Host, Outcome, Readiness, ReadyState, Summary};
use crate::render::Style;
use crate::render::text::{Tone, printable, wrap};

const INDENT: usize = 8;

/// Writes the report for people.
pub fn table(
    report: &Report<'_>,
    shown: &Shown<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    out.write_all(header(report, style).as_bytes())?;
    for readiness in &report.readiness {
        out.write_all(verdict(readiness, style).as_bytes())?;
    }
    let failures = failures(report);
    if !failures.is_empty() && !report.readiness.is_empty() {
        out.write_all(b"\n")?;
    }
    // Why a check matters is said where it first shows.
    let mut explained: BTreeSet<&str> = BTreeSet::new();
    for finding in failures {
        let new = explained.insert(&finding.id);
        let why = if new && finding.outcome != Outcome::Unknown {
            (shown.why)(&finding.id)
        } else {
            ""
        };
        out.write_all(failure(finding, why, style).as_bytes())?;
    }
    if !shown.quiet {
        by_family(report, shown, style, out)?;
    }
    out.write_all(b"\n")?;
    out.write_all(summary(&report.summary, style).as_bytes())
}

fn header(report: &Report<'_>, style: Style) -> String {
    let Host {
        name, os, kernel, ..
    } = report.host;
    let parts: Vec<String> = [name, os, kernel]
        .into_iter()
        .flatten()
        .map(|part| printable(part))
        .collect();
    let what = match report.host.source.as_str() {
        "live" => String::new(),
        source => format!(" (recorded: {})", printable(source)),
    };
    let title = wrap(
        &format!("gdr doctor: {}{what}", parts.join(", ")),
        style.width,
        0,
        "  ",
    );
    let profiles = wrap(
        &printable(&format!("ready for: {}", report.profiles.join(", "))),
        style.width,
        0,
        "  ",
    );
    format!(
        "{}\n{}\n\n",
        style.paint(Tone::Strong, &title),
        style.paint(Tone::Dim, &profiles)
    )
}

fn verdict(readiness: &Readiness, style: Style) -> String {
    let tone = match readiness.state {
        ReadyState::Ready => Tone::Good,
        ReadyState::Partly | ReadyState::Undetermined => Tone::Fair,
        ReadyState::NotReady => Tone::Bad,
    };
    let text = wrap(&printable(&readiness.text), style.width, 0, "    ");
    format!("{}\n", style.paint(tone, &text))
}

/// Cause, consequence, evidence, command.
fn failure(finding: &Finding, why: &str, style: Style) -> String {
    let mark = style.paint(
        Tone::of_outcome(finding.outcome),
        &format!("{:<7}", word(finding.outcome)),
    );
    let indent = " ".repeat(INDENT);
    let subject = wrap(
        &format!("{}  {}", finding.id, printable(&finding.subject)),
        style.width,
        INDENT,
        &indent,
    );
    let mut text = format!("{mark} {subject}\n");
    let mut add = |label: &str, body: &str| {
        let hang = format!("{indent}{}", " ".repeat(label.len()));
        text.push_str(&format!(
            "{indent}{label}{}\n",
            wrap(body, style.width, hang.len(), &hang)
        ));
    };
    add("", &printable(&finding.message));
    if !why.is_empty() {
        add("why:   ", why);
    }
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
        // A command is copied whole: it is never broken.
        text.push_str(&format!("{indent}fix:   {}\n", printable(&fix.command)));
    }
    text
}

/// What is well, and what is merely so, under the titles of its family.
fn by_family(
    report: &Report<'_>,
    shown: &Shown<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let calm: Vec<&Finding> = report
        .findings
        .iter()
        .filter(|finding| {
            matches!(
                finding.outcome,
                Outcome::Pass | Outcome::Info | Outcome::Skip
            )
        })
        .collect();
    let widest = calm
        .iter()
        .map(|finding| finding.id.len())
        .max()
        .unwrap_or(0);
    for (title, ids) in shown.families {
        let of_family: Vec<&&Finding> = calm
            .iter()
            .filter(|finding| ids.contains(&finding.id.as_str()))
            .collect();
        if of_family.is_empty() {
            continue;
        }
        writeln!(out, "\n{}", style.paint(Tone::Strong, title))?;
        for finding in of_family {
            out.write_all(line(finding, widest, shown.evidence, style).as_bytes())?;
        }
    }
    Ok(())
}

fn line(finding: &Finding, widest: usize, evidence: bool, style: Style) -> String {
    let mark = style.paint(
        Tone::of_outcome(finding.outcome),
        &format!("{:<7}", word(finding.outcome)),
    );
    let (id, subject, message) = (
        &finding.id,
        printable(&finding.subject),
        printable(&finding.message),
    );
    let line = format!("{id:<widest$}  {subject}: {message}");
    let indent = " ".repeat(INDENT);
    // Under the subject, unless that leaves less than half of a narrow terminal.
    let hang = match INDENT + widest + 2 {
        hang if hang * 2 <= style.width => " ".repeat(hang),
        _ => indent.clone(),
    };
    let mut text = format!("{mark} {}\n", wrap(&line, style.width, INDENT, &hang));
    let seen = finding.evidence.iter().filter(|_| evidence);
    for seen in seen {
        let label = "seen:  ";
        let body = printable(&format!("{}: {}", seen.source, seen.value));
        let hang = format!("{indent}{}", " ".repeat(label.len()));
        text.push_str(&format!(
            "{indent}{label}{}\n",
            wrap(&body, style.width, hang.len(), &hang)
        ));
    }
    text
}

fn summary(summary: &Summary, style: Style) -> String {
    let parts = counts(summary).map(|(outcome, count, word)| {
        let text = format!("{count} {word}");
        match count {
            0 => text,
            _ => style.paint(Tone::of_outcome(outcome), &text),
        }
    });
    parts.join(", ") + "\n"
}
