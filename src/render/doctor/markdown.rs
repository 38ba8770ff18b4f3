//! The report as Markdown, for tickets and wikis.

use std::io::{self, Write};

use super::group::{Group, groups};
use super::table::verdict;
use super::{Report, Shown, counts, explained, failures, left_out, missing, root, steps, word};
use crate::model::{Finding, Outcome, Remedy};
use crate::render::comparison::{headline, sentence};
use crate::render::text::printable;

pub fn markdown(report: &Report<'_>, shown: &Shown<'_>, out: &mut dyn Write) -> io::Result<()> {
    let host = report.host;
    let parts = [&host.name, &host.os, &host.kernel].into_iter().flatten();
    let parts: Vec<String> = parts.map(|part| plain(part)).collect();
    let mut page = format!("# gdr doctor: {}\n\n", parts.join(", "));
    if let Some(recording) = host.recording() {
        page.push_str(&format!("Recorded: {}\n\n", plain(&recording)));
    }
    if let Some(hardware) = &report.hardware {
        page.push_str(&format!("Hardware: {}\n\n", plain(hardware)));
    }
    page.push_str(&format!("**{}**\n\n", plain(&verdict(report).1)));
    for readiness in &report.readiness {
        page.push_str(&format!("- {}\n", plain(&readiness.text)));
    }
    let sums = counts(&report.summary).map(|(_, count, word)| format!("{count} {word}"));
    page.push_str(&format!("\n{}\n", sums.join(", ")));
    let steps = steps(report, shown);
    if let Some(step) = steps.last() {
        page.push_str(&format!("\n**{}**\n", plain(&step.to_string())));
    }
    if let Some(comparison) = &report.comparison {
        page.push_str(&format!("\n{}\n", plain(&headline(comparison))));
        let differences = comparison.differences.iter().filter(|_| !comparison.is_equal());
        for (at, difference) in differences.enumerate() {
            let gap = if at == 0 { "\n" } else { "" };
            let words = format!("{}: {}", difference.kind.word(), sentence(difference, false));
            page.push_str(&format!("{gap}- {}\n", plain(&words)));
        }
    }
    out.write_all(page.as_bytes())?;
    let failures = groups(failures(report));
    for group in failures.iter().filter(|group| shown.has_block(group.findings[0])) {
        let explains = root(report, group).and_then(explained);
        out.write_all(failure(group, explains, shown).as_bytes())?;
    }
    for (at, line) in missing(report, shown).iter().enumerate() {
        let gap = if at == 0 { "\n" } else { "" };
        writeln!(out, "{gap}- UNKNOWN: {}", plain(line))?;
    }
    if !shown.quiet {
        out.write_all(b"\n| | check | subject | |\n|---|---|---|---|\n")?;
        let is_wrong = |finding: &Finding| {
            matches!(finding.outcome, Outcome::Fail | Outcome::Warn | Outcome::Unknown)
        };
        let rest = report.findings.iter().zip(&report.causes);
        let rest = rest.filter(|(finding, cause)| {
            cause.is_some() || !is_wrong(finding) || !shown.has_block(finding)
        });
        for (finding, _) in rest {
            let cells =
                [word(finding.outcome), &finding.id, &finding.subject, &finding.message].map(cell);
            writeln!(out, "| {} |", cells.join(" | "))?;
        }
    }
    let numbered = report.next_steps.iter().enumerate();
    for (at, step) in numbered.filter(|_| report.next_steps.len() > 1) {
        let heading = if at == 0 { "\n## Next steps\n\n" } else { "" };
        writeln!(out, "{heading}{}. {}", at + 1, plain(&step.line()))?;
    }
    if let Some(line) = left_out(report) {
        writeln!(out, "\n{line}")?;
    }
    Ok(())
}

fn failure(group: &Group<'_>, explains: Option<String>, shown: &Shown<'_>) -> String {
    let finding = group.findings[0];
    let why = (shown.why)(&finding.id);
    let subjects: Vec<&str> = group.findings.iter().map(|one| one.subject.as_str()).collect();
    let mut text = format!(
        "\n## {} `{}` {}\n\n{}\n",
        word(finding.outcome),
        finding.id,
        plain(&subjects.join(", ")),
        plain(&finding.message)
    );
    if finding.outcome != Outcome::Unknown && !why.is_empty() {
        text.push_str(&format!("\n{}\n", plain(why)));
    }
    if let Some(explains) = explains {
        text.push_str(&format!("\nExplains {}\n", plain(&explains)));
    }
    if !finding.evidence.is_empty() {
        text.push('\n');
    }
    for evidence in group.evidence() {
        text.push_str(&format!("- {}: {}\n", code(&evidence.source), code(&evidence.value)));
    }
    if let Some(needs) = &finding.needs {
        text.push_str(&format!("\nNeeds: {}\n", plain(needs)));
    }
    if let Some(action) = &finding.action {
        let drain = if action.drain { "drain the node, then " } else { "" };
        let words = action.words(finding.fix.as_ref().and_then(Remedy::id));
        text.push_str(&format!(
            "\n**Action**: {drain}{} ({})\n",
            plain(&words),
            plain(&action.source)
        ));
    }
    let Some(fix) = &finding.fix else {
        return text;
    };
    if let Some(advice) = &fix.manual().advice {
        text.push_str(&format!("\n{}\n", plain(advice)));
    }
    let remedies = group.findings.iter().filter_map(|one| one.fix.as_ref());
    let by_gdr = fix.id().map(|id| format!("{} {id}", shown.fix));
    let by_hand = remedies.filter_map(|fix| fix.manual().command.clone());
    if let Some(command) = by_gdr {
        text.push_str(&fenced(&[command]));
    }
    let mut commands: Vec<String> = by_hand.collect();
    commands.dedup();
    if !commands.is_empty() {
        if fix.id().is_some() {
            text.push_str("\nThe same by hand:\n");
        }
        text.push_str(&fenced(&commands));
    }
    text
}

/// Commands as a block of code.
fn fenced(commands: &[String]) -> String {
    let lines: Vec<String> = commands.iter().map(|command| printable(command)).collect();
    let lines = lines.join("\n");
    let fence = "`".repeat(3.max(longest_run(&lines) + 1));
    format!("\n{fence}\n{lines}\n{fence}\n")
}

/// Escapes text so that it contains no markup (CommonMark 0.31, and GitHub's tables, strikethrough and automatic
/// links).
fn plain(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len());
    // Leading spaces would make a code block.
    let mut rest = text.trim_start();
    // At the start, a dash, a plus or a number makes a list; equals signs turn the previous line into a heading.
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let after = &rest[digits..];
    let at_list = digits > 0
        && (matches!(after, "." | ")") || after.starts_with(". ") || after.starts_with(") "));
    if at_list || rest.starts_with(['-', '+', '=']) {
        let (number, after) = rest.split_at(digits);
        out.push_str(number);
        out.push('\\');
        out.push_str(&after[..1]);
        rest = &after[1..];
    }
    for (at, c) in rest.char_indices() {
        let is_link =
            rest[at..].starts_with("://") || c == '.' && ends_in_www(&rest.as_bytes()[..at]);
        if is_link
            || matches!(
                c,
                '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' | '@' | '$'
            )
        {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn ends_in_www(text: &[u8]) -> bool {
    text.len().checked_sub(3).is_some_and(|at| text[at..].eq_ignore_ascii_case(b"www"))
}

fn cell(text: &str) -> String {
    plain(text)
}

/// A code span with any content.
fn code(text: &str) -> String {
    let text = printable(text);
    if text.trim().is_empty() {
        return "(empty)".to_owned();
    }
    let ticks = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_markup() {
        assert_eq!(plain("a|b_c <x>"), "a\\|b\\_c \\<x\\>");
        assert_eq!(code("no `tick` here"), "``no `tick` here``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code(""), "(empty)");
        assert_eq!(plain("a\nb"), "a?b");
        assert_eq!(plain("&#x202e;"), "\\&\\#x202e;");
        assert_eq!(plain("  1. a"), "1\\. a");
        assert_eq!(plain("- a - b"), "\\- a - b");
        assert_eq!(plain("==="), "\\===");
        assert_eq!(plain("2 GPUs"), "2 GPUs");
        assert_eq!(plain("6.8.0"), "6.8.0");
        assert_eq!(plain("1)"), "1\\)");
        assert_eq!(plain("see http://a or WWW.b"), "see http\\://a or WWW\\.b");
        assert_eq!(plain("0000:02:00.0"), "0000:02:00.0");
    }
}
