//! The report as one line that says what is wrong: the reason of a scheduler that drains a node. The message comes first, because
//! lists of nodes show the beginning alone.

use super::Report;
use crate::model::{Finding, Outcome, Remedy, in_words};
use crate::render::text::printable;

/// Most characters of the line. Slurm and Kubernetes show longer ones cut.
const MAX_CHARACTERS: usize = 240;
/// Most characters of its first part, up to the number of further faults.
const MAX_FIRST: usize = 60;
/// A message is cut at a colon, a semicolon or a parenthesis that comes after so many characters.
const SHORTEST: usize = 12;

/// `matters`: an unknown finding leaves a requirement open.
pub fn line(report: &Report<'_>, matters: &dyn Fn(&Finding) -> bool) -> String {
    let failed: Vec<(&Finding, bool)> = those(report, &|finding| finding.outcome == Outcome::Fail);
    let unknown: Vec<(&Finding, bool)> =
        those(report, &|finding| finding.outcome == Outcome::Unknown && matters(finding));
    let text = match (failed.as_slice(), unknown.as_slice()) {
        ([_, ..], _) => about("gdr: ", &failed),
        ([], [_, ..]) => about("gdr: unknown: ", &unknown),
        ([], []) => "gdr: nothing failed".to_owned(),
    };
    let text = printable(&text).replace('\n', " ");
    format!("{}\n", cut(&text, MAX_CHARACTERS))
}

/// The findings, and whether another one explains each; those that are causes first.
fn those<'r>(
    report: &'r Report<'_>,
    wanted: &dyn Fn(&Finding) -> bool,
) -> Vec<(&'r Finding, bool)> {
    let all = report.findings.iter().zip(&report.causes);
    let all = all.filter(|(finding, _)| wanted(finding));
    let mut all: Vec<(&Finding, bool)> =
        all.map(|(finding, cause)| (finding, cause.is_some())).collect();
    all.sort_by_key(|(_, is_explained)| *is_explained);
    all
}

/// What is wrong with the number of further faults, the checks, and what to do.
fn about(lead: &str, findings: &[(&Finding, bool)]) -> String {
    let Some((first, _)) = findings.first() else {
        return lead.to_owned();
    };
    let causes = findings.iter().filter(|(_, is_explained)| !is_explained).count();
    let more = match causes.max(1) - 1 {
        0 => String::new(),
        count => format!(" (+{count})"),
    };
    let room = MAX_FIRST.saturating_sub(lead.len() + more.len());
    let words = first_part(&first.subject, &first.message, room);
    let mut ids: Vec<&str> = Vec::new();
    for (finding, _) in findings {
        if !ids.contains(&finding.id.as_str()) {
            ids.push(&finding.id);
        }
    }
    let action = first.action.as_ref().map_or(String::new(), |action| {
        let drain = if action.drain { "drain, " } else { "" };
        let fix = first.fix.as_ref().and_then(Remedy::id);
        format!("; {drain}{}", action.words(fix))
    });
    format!("{lead}{words}{more}{action}; {}", ids.join(", "))
}

/// What is wrong, in so many characters: the name of the subject without its address, and the beginning of the message.
pub fn first_part(subject: &str, message: &str, room: usize) -> String {
    let name = subject.split(" (").next().unwrap_or(subject);
    // A path says nothing that a message does not.
    let subject = if subject.starts_with('/') { "machine" } else { subject };
    let words = printable(&in_words(subject, message));
    let words = match words.strip_prefix(subject) {
        Some(rest) => format!("{name}{rest}"),
        None => words,
    };
    // The name of the subject is not a message.
    let start = if words.starts_with(&format!("{name}: ")) { name.len() + 2 } else { 0 };
    shortened(&words, start, room)
}

/// A message that fits: up to a colon, a semicolon or a parenthesis, else up to a word.
fn shortened(words: &str, start: usize, room: usize) -> String {
    if words.chars().count() <= room {
        return words.to_owned();
    }
    let end = words.char_indices().nth(room).map_or(words.len(), |(end, _)| end);
    let head = words.get(start..end).unwrap_or_default();
    let asides = [": ", "; ", " ("].iter().filter_map(|mark| head.rfind(mark));
    match asides.max() {
        Some(aside) if start + aside >= SHORTEST => words[..start + aside].to_owned(),
        _ => cut(words, room),
    }
}

/// The text up to so many characters, with dots where something is left out.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most.saturating_sub(3)) {
        Some((end, _)) if text.chars().count() > most => format!("{}...", text[..end].trim_end()),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_where_a_list_begins() {
        for (words, room, expected) in [
            ("2 of 4 GPUs missing: 0000:18:00.0, 0000:cb:00.0", 40, "2 of 4 GPUs missing"),
            ("2 of 4 GPUs missing", 40, "2 of 4 GPUs missing"),
            ("The port redirects (ReqRedir, CmpltRedir).", 30, "The port redirects"),
            ("mlx5_4: Active ports 0 of 1 that are expected", 30, "mlx5_4: Active ports 0 of 1..."),
        ] {
            assert_eq!(shortened(words, 0, room), expected);
        }
    }
}
