//! Lines shared by the tables of several probes.

use std::collections::BTreeSet;

use super::{INDENT, amount, figure, size};
use crate::model::{Finding, Outcome, ProbeResult, ProbeVerdict};
use crate::render::Style;
use crate::render::text::{Tone, printable, wrap};

/// The width of the first column: the longest word and two spaces.
const COLUMN: usize = "COULD NOT RUN".len() + 2;

/// Amount of verified data.
pub fn verified(results: &[&ProbeResult]) -> String {
    let checks = results
        .iter()
        .filter(|result| result.verified > 0 || result.verdict == ProbeVerdict::Wrong);
    let (mut count, mut bytes, mut wrong) = (0, 0, 0);
    for check in checks {
        count += 1;
        bytes += check.verified;
        wrong += usize::from(check.verdict == ProbeVerdict::Wrong);
    }
    let checks = if count == 1 { "check" } else { "checks" };
    match (count, wrong) {
        (0, _) => "nothing was verified".to_owned(),
        (_, 0) => format!("verified {} in {count} {checks}: all bytes are correct", amount(bytes)),
        (_, wrong) => format!("{wrong} of {count} {checks} found wrong bytes"),
    }
}

/// Wrong, slow and impossible results; sizes with the same reason share a line. With `all`, every result and its
/// subject.
pub fn failures(results: &[&ProbeResult], indent: &str, style: Style, all: bool) -> String {
    let mut groups: Vec<(&ProbeResult, BTreeSet<u64>)> = Vec::new();
    for result in results.iter().filter(|result| all || result.verdict != ProbeVerdict::Ok) {
        let alike = |other: &ProbeResult| {
            (&other.name, &other.reason, other.numa) == (&result.name, &result.reason, result.numa)
        };
        match groups.iter_mut().find(|(other, _)| alike(other)) {
            Some((_, sizes)) => sizes.extend(result.bytes),
            None => groups.push((result, result.bytes.into_iter().collect())),
        }
    }
    let hang = format!("{indent}{}", " ".repeat(COLUMN));
    let mut text = String::new();
    for (result, sizes) in groups {
        let (word, tone) = verdict(result);
        let line = printable(&failure(result, sizes, all));
        text.push_str(&format!(
            "{indent}{}{}{}\n",
            style.paint(tone, word),
            " ".repeat(COLUMN - word.len()),
            wrap(&line, style.width, hang.len(), &hang)
        ));
    }
    text
}

fn verdict(result: &ProbeResult) -> (&'static str, Tone) {
    match result.verdict {
        ProbeVerdict::Wrong => ("WRONG", Tone::Bad),
        ProbeVerdict::Impossible => match (result.required, result.median) {
            (true, None) => ("COULD NOT RUN", Tone::Bad),
            (true, Some(_)) => ("IMPOSSIBLE", Tone::Bad),
            (false, figure) => (result.verdict.word(figure.is_some()), Tone::Fair),
        },
        ProbeVerdict::Slow => ("slow", Tone::Fair),
        ProbeVerdict::NotMeasured if result.expected.is_none() => {
            (result.verdict.word(false), Tone::Dim)
        }
        ProbeVerdict::NotMeasured => ("expected", Tone::Dim),
        ProbeVerdict::Ok => ("ok", Tone::Good),
    }
}

fn failure(result: &ProbeResult, sizes: BTreeSet<u64>, with_subject: bool) -> String {
    let name = if with_subject {
        format!("{}, {}", result.subject, result.name)
    } else {
        result.name.clone()
    };
    let sizes: Vec<String> = sizes.into_iter().map(size).collect();
    let sizes = if sizes.is_empty() { String::new() } else { format!(", {}", sizes.join(" ")) };
    let place = match result.numa {
        Some(node) if result.verdict == ProbeVerdict::Slow => format!(" from NUMA node {node}"),
        _ => String::new(),
    };
    let figure = match (result.verdict, result.median, result.expected) {
        (ProbeVerdict::Slow, Some(median), _) => format!("{} {}, ", figure(median), result.unit),
        (ProbeVerdict::NotMeasured, _, Some(expected)) => {
            format!("up to {} {}; ", figure(expected), result.unit)
        }
        _ => String::new(),
    };
    let reason = result.reason.as_deref().unwrap_or("no reason was given");
    format!("{name}{sizes}{place}: {figure}{reason}")
}

/// What is not as a profile expects.
pub fn unexpected(findings: &[Finding], style: Style) -> String {
    let wrong = findings.iter().filter(|finding| finding.outcome != Outcome::Pass);
    let lines = wrong.map(|finding| {
        let (word, tone) = match finding.outcome {
            Outcome::Fail => ("FAIL", Tone::Bad),
            Outcome::Warn => ("WARN", Tone::Fair),
            _ => ("info", Tone::Dim),
        };
        let line = printable(&format!("{}, {}", finding.subject, finding.message));
        format!(
            "{}{}{}\n",
            style.paint(tone, word),
            " ".repeat(COLUMN - word.len()),
            wrap(&line, style.width, COLUMN, &" ".repeat(COLUMN))
        )
    });
    lines.collect()
}

/// A line below a heading.
pub fn line_of(text: &str, style: Style) -> String {
    let wrapped = wrap(&printable(text), style.width, INDENT.len(), "    ");
    format!("{INDENT}{wrapped}\n")
}
