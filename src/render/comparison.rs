//! How a machine or a fleet differs from an earlier report, for people. The JSON is the comparison itself.

use std::fmt::Write as _;

use super::Style;
use super::text::{Tone, counted, printable, wrap};
use crate::model::{Comparison, Difference, DifferenceKind};

/// Most differences of a kind in a terminal; the JSON has all.
const MAX_LINES: usize = 60;

const KINDS: [DifferenceKind; 10] = [
    DifferenceKind::Node,
    DifferenceKind::New,
    DifferenceKind::Changed,
    DifferenceKind::Unknown,
    DifferenceKind::Device,
    DifferenceKind::Counter,
    DifferenceKind::Figure,
    DifferenceKind::Fixed,
    DifferenceKind::Version,
    DifferenceKind::Still,
];

/// The result in one line.
pub fn headline(comparison: &Comparison) -> String {
    let since = match &comparison.taken {
        Some(taken) => format!("Since {taken} ({})", comparison.source),
        None => format!("Since {}", comparison.source),
    };
    let still = match comparison.count(DifferenceKind::Still) {
        0 => String::new(),
        count => format!("; still wrong: {}", counted(count, "finding")),
    };
    if comparison.is_equal() {
        let nodes = if comparison.nodes == 1 {
            String::new()
        } else {
            format!(" on {}", counted(comparison.nodes, "node"))
        };
        return format!("{since}: nothing changed{nodes}{still}.");
    }
    let parts = KINDS.into_iter().filter(|kind| *kind != DifferenceKind::Still);
    let parts = parts.map(|kind| (comparison.count(kind), kind));
    let parts: Vec<String> = parts
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| match kind {
            DifferenceKind::Version => counted(count, "version"),
            _ => format!("{count} {}", kind.word()),
        })
        .collect();
    format!("{since}: {}{still}.", parts.join(", "))
}

/// The headline and a line for each difference. The nodes are named if there are several.
pub fn table(comparison: &Comparison, with_nodes: bool, style: Style) -> String {
    let mut page = String::new();
    let head = wrap(&printable(&headline(comparison)), style.width, 0, "  ");
    // Writing to a String cannot fail.
    let _ = writeln!(page, "{}", style.paint(Tone::Strong, &head));
    if comparison.is_equal() {
        return page + &notes(comparison, style);
    }
    for kind in KINDS {
        let all = comparison.differences.iter().filter(|difference| difference.kind == kind);
        for difference in all.clone().take(MAX_LINES) {
            let text = sentence(difference, with_nodes);
            let text = wrap(&printable(&text), style.width, 10, &" ".repeat(10));
            let gap = " ".repeat(8_usize.saturating_sub(kind.word().len()));
            let _ = writeln!(page, "  {}{gap}{text}", style.paint(tone(kind), kind.word()));
        }
        let more = all.count().saturating_sub(MAX_LINES);
        if more > 0 {
            let _ = writeln!(page, "  and {more} more of this kind: --format json has them");
        }
    }
    page + &notes(comparison, style)
}

fn notes(comparison: &Comparison, style: Style) -> String {
    let note = |note: &String| {
        let note = wrap(&printable(note), style.width, 2, "    ");
        format!("  {}\n", style.paint(Tone::Dim, &note))
    };
    comparison.notes.iter().map(note).collect()
}

/// A difference in words.
pub fn sentence(difference: &Difference, with_nodes: bool) -> String {
    let Difference { what, devices, before, now, since, explains, nodes, .. } = difference;
    let nodes = if with_nodes { format!("{nodes}: ") } else { String::new() };
    let devices =
        if devices.is_empty() { String::new() } else { format!(" ({})", devices.join(", ")) };
    let change = match (before, now) {
        (Some(before), Some(now)) => format!(": {before} \u{2192} {now}"),
        (Some(before), None) if difference.kind == DifferenceKind::Fixed => {
            format!(": was {before}")
        }
        (Some(before), None) => format!(": gone; was {before}"),
        (None, Some(now)) if difference.kind == DifferenceKind::Device => format!(": new: {now}"),
        (None, Some(now)) => format!(": {now}"),
        (None, None) => String::new(),
    };
    let since = since.as_ref().map_or(String::new(), |since| format!(" Since {since}."));
    let explains = if explains.is_empty() {
        String::new()
    } else {
        format!(" (+{}: {})", explains.len(), explains.join(", "))
    };
    format!("{nodes}{what}{devices}{change}{since}{explains}")
}

pub fn tone(kind: DifferenceKind) -> Tone {
    match kind {
        DifferenceKind::New | DifferenceKind::Node | DifferenceKind::Counter => Tone::Bad,
        DifferenceKind::Changed | DifferenceKind::Device | DifferenceKind::Figure => Tone::Fair,
        DifferenceKind::Fixed => Tone::Good,
        DifferenceKind::Version => Tone::Special,
        DifferenceKind::Unknown | DifferenceKind::Still => Tone::Dim,
    }
}
