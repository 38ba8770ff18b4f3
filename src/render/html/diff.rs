//! Differences between two machines, or between two runs of a probe, as a page.

use super::made;
use super::page::{Page, mark, text};
use crate::model::{Change, DiffReport, Side};
use crate::render::diff::{left_out, percent, tone, word};
use crate::render::text::{Tone, counted};

pub fn diff(report: &DiffReport, taken: &str) -> String {
    let mut page = Page::new("gdr snapshot --diff", "");
    let (tone, words) = match report.changes.len() {
        0 => (Tone::Good, "No differences.".to_owned()),
        count => (Tone::Fair, counted(count, "difference") + "."),
    };
    page.verdict(tone, &words);
    page.facts([("A", side(&report.a)), ("B", side(&report.b))]);
    if !report.changes.is_empty() {
        page.section("Differences");
        let rows = report.changes.iter().map(row);
        page.table("Differences between A and B", &["what", "fact", "difference", "A", "B"], rows);
    }
    if report.left_out > 0 {
        page.paragraph(&left_out(report.left_out));
    }
    page.finish(&made(taken))
}

fn side(side: &Side) -> String {
    let parts = [Some(&side.source), side.host.as_ref(), side.taken.as_ref()];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    parts.join(", ")
}

fn row(change: &Change) -> Vec<String> {
    let value = |value: &Option<String>| text(value.as_deref().unwrap_or("absent"));
    let regressed = change.figure.as_ref().is_some_and(|figure| figure.regression);
    let (tone, word) =
        if regressed { (Tone::Bad, "worse") } else { (tone(change.kind), word(change.kind)) };
    vec![
        text(&change.area),
        text(&change.fact),
        mark(tone, word),
        value(&change.a),
        format!("{}{}", value(&change.b), text(&percent(change))),
    ]
}
