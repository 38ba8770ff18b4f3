//! The nodes of a fleet over time, for people.

use std::fmt::Write as _;

use super::Style;
use super::text::{Tone, counted, printable, wrap};
use crate::model::{History, NodeHistory};

/// Most nodes in a terminal.
const MAX_NODES: usize = 200;
/// Fewest and most days of a line, and the columns beside it.
const MIN_DAYS: usize = 14;
const MAX_DAYS: usize = 60;
const WORDS: usize = 64;

/// What the letters of a line mean.
pub const LEGEND: &str = ". ok, ? undetermined, s slow, X failed, - no report";

/// The result in one line.
pub fn headline(history: &History) -> (Tone, String) {
    let (Some(first), Some(last)) = (history.days.first(), history.days.last()) else {
        return (Tone::Fair, "no report of a node".to_owned());
    };
    let all = history.nodes.len() + history.always_ok_count;
    let wrong = history.nodes.iter().filter(|node| node.state != '.').count();
    let flapping = history.nodes.iter().filter(|node| node.flaps).count();
    let words = format!(
        "{} on {} from {first} to {last}: {} not ok now, {flapping} that fail and recover, {} always ok",
        counted(all, "node"),
        counted(history.days.len(), "day"),
        wrong,
        history.always_ok_count
    );
    (
        if wrong > 0 {
            Tone::Bad
        } else if flapping > 0 {
            Tone::Fair
        } else {
            Tone::Good
        },
        words,
    )
}

/// Formats the history: a line for each node that was not always ok.
pub fn table(history: &History, style: Style) -> String {
    let mut page = String::new();
    let (tone, words) = headline(history);
    let words = wrap(&printable(&words), style.width, 0, "  ");
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{}", style.paint(tone, &words));
    let nodes = &history.nodes[..history.nodes.len().min(MAX_NODES)];
    let widest = nodes.iter().map(|node| printable(&node.name).chars().count()).max().unwrap_or(0);
    // The words need room beside the line.
    let room = style.width.saturating_sub(widest + WORDS).clamp(MIN_DAYS, MAX_DAYS);
    let days = history.days.len().min(room);
    if let Some(first) = history.days.get(history.days.len() - days).filter(|_| !nodes.is_empty()) {
        let _ = writeln!(page, "\nfrom {first}, one letter a day: {LEGEND}");
    }
    for node in nodes {
        let name = printable(&node.name);
        let gap = " ".repeat(widest - name.chars().count());
        let line: String = node.line.chars().skip(history.days.len() - days).collect();
        let start = widest + days + 4;
        let words = wrap(
            &printable(&sentence(node)),
            style.width.max(start + 30),
            start,
            &" ".repeat(start),
        );
        let line = style.paint(tone_of(node), &line);
        let _ = writeln!(page, "{name}{gap}  {line}  {words}");
    }
    let more = history.nodes.len() - nodes.len();
    if more > 0 {
        let _ = writeln!(page, "and {more} more nodes: --format json has them");
    }
    if history.always_ok_count > 0 {
        let words = format!("always ok: {}", history.always_ok);
        let _ = writeln!(page, "\n{}", wrap(&printable(&words), style.width, 0, "  "));
    }
    for note in &history.notes {
        let note = wrap(&printable(note), style.width, 0, "  ");
        let _ = writeln!(page, "{}", style.paint(Tone::Dim, &note));
    }
    page
}

/// The state of a node, and what was wrong.
pub fn sentence(node: &NodeHistory) -> String {
    let mut parts = vec![format!("{} since {}", state(node.state), node.since)];
    if node.flaps {
        parts.push(format!("fails and recovers: {} failures", node.failures));
    }
    if node.link_flaps > 0 {
        parts.push(format!("{} of its NICs", counted(node.link_flaps, "link flap")));
    }
    if let Some(problem) = node.problems.first() {
        let more = match node.problems.len() {
            1 => String::new(),
            count => format!(" (+{})", count - 1),
        };
        parts.push(format!(
            "{} ({}) in {}{more}",
            problem.check,
            problem.device,
            counted(problem.reports, "report")
        ));
    }
    parts.join("; ")
}

pub fn state(letter: char) -> &'static str {
    match letter {
        '.' => "ok",
        'X' => "failed",
        '-' => "no report",
        's' => "slow",
        _ => "undetermined",
    }
}

pub fn tone_of(node: &NodeHistory) -> Tone {
    match node.state {
        '.' if node.flaps => Tone::Fair,
        '.' => Tone::Good,
        'X' | '-' => Tone::Bad,
        _ => Tone::Fair,
    }
}
