//! The nodes of a fleet over time as a page: a chart of all, and a strip for each node that was not always ok.

use std::fmt::Write as _;

use super::made;
use super::page::{Page, mark, text};
use crate::model::{History, NodeHistory};
use crate::render::history::{headline, state, tone_of};
use crate::render::text::counted;

/// Width of a strip, and height of a strip and of the chart.
const WIDTH: usize = 240;
const HEIGHT: usize = 14;
const CHART: (usize, usize) = (720, 120);

pub fn history(history: &History, taken: &str) -> String {
    let mut page = Page::new("gdr fleet history", "");
    let (tone, words) = headline(history);
    page.verdict(tone, &words);
    for note in &history.notes {
        page.remark(note);
    }
    if let (Some(first), Some(last)) = (history.days.first(), history.days.last()) {
        page.section("Nodes that were not ok");
        let worst = history.not_ok.iter().max().copied().unwrap_or(0);
        page.paragraph(&format!(
            "Per day, from {first} to {last}; at most {}.",
            counted(worst, "node")
        ));
        page.push(&chart(history, worst));
    }
    page.section("Nodes");
    if history.nodes.is_empty() {
        page.paragraph("Every node was ok on every day.");
    } else {
        let rows = history.nodes.iter().map(|node| {
            let problems = node.problems.iter().map(|problem| {
                let reports = counted(problem.reports, "report");
                text(&format!(
                    "{} ({}): {reports}, last {}",
                    problem.check,
                    problem.device,
                    day(&problem.last)
                ))
            });
            vec![
                text(&node.name),
                mark(tone_of(node), state(node.state)),
                format!("<span class=\"date\">{}</span>", text(day(&node.since))),
                strip(node),
                node.failures.to_string(),
                node.link_flaps.to_string(),
                problems.collect::<Vec<_>>().join("<br>"),
            ]
        });
        page.table(
            "Nodes that were not always ok",
            &["node", "now", "since", "days", "#failures", "#link flaps", "what was wrong"],
            rows,
        );
    }
    if history.always_ok_count > 0 {
        page.details(&format!("{} always ok", counted(history.always_ok_count, "node")), |page| {
            page.paragraph(&history.always_ok);
        });
    }
    page.finish(&made(taken))
}

/// The page has one report a day.
fn day(time: &str) -> &str {
    time.split_once('T').map_or(time, |(day, _)| day)
}

/// Bars: the nodes that were not ok on each day.
fn chart(history: &History, worst: usize) -> String {
    let (width, height) = CHART;
    let mut svg = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Chart\"><svg role=\"img\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\"><title>Nodes that were not ok, by day</title>\n"
    );
    let step = width as f64 / history.days.len().max(1) as f64;
    for (at, (day, count)) in history.days.iter().zip(&history.not_ok).enumerate() {
        if *count == 0 {
            continue;
        }
        let tall = (height - 2) as f64 * *count as f64 / worst.max(1) as f64;
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"var(--bad)\"><title>{}: {count}</title></rect>",
            at as f64 * step,
            (height - 1) as f64 - tall,
            (step * 0.9).max(0.5),
            text(day)
        );
    }
    let bottom = height - 1;
    let _ = writeln!(
        svg,
        "<path d=\"M0 {bottom}H{width}\" stroke=\"var(--soft)\" fill=\"none\"/></svg></div>"
    );
    svg
}

/// The days of a node: equal days side by side are one piece. Height shows the state too, for people who do not see the colours.
fn strip(node: &NodeHistory) -> String {
    let days: Vec<char> = node.line.chars().collect();
    let label = format!("{}: {}", node.name, node.line);
    let mut svg = format!(
        "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\"><title>{}</title>",
        text(&label)
    );
    let step = WIDTH as f64 / days.len().max(1) as f64;
    let mut at = 0;
    for piece in days.chunk_by(|a, b| a == b) {
        let (fill, tall) = match piece[0] {
            '.' => ("var(--good)", 4),
            'X' => ("var(--bad)", HEIGHT),
            '-' => ("var(--soft)", HEIGHT),
            '?' | 's' => ("var(--fair)", 9),
            _ => ("none", 0),
        };
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{}\" width=\"{:.1}\" height=\"{tall}\" fill=\"{fill}\"/>",
            at as f64 * step,
            HEIGHT - tall,
            piece.len() as f64 * step
        );
        at += piece.len();
    }
    svg.push_str("</svg>");
    svg
}
