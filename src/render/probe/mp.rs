//! Latencies and bandwidths of messages, puts and gets between two ranks.

use super::by_size::{bandwidths_by_size, latencies_by_size};
use super::lines::{failures, line_of, verified};
use super::{INDENT, subjects};
use crate::model::figure::mp;
use crate::model::{ProbeReport, ProbeResult};
use crate::render::Style;
use crate::render::text::{Tone, printable, wrap};

pub fn figures(report: &ProbeReport, style: Style) -> String {
    let subjects = subjects(report).into_iter().filter(|subject| *subject != "machine");
    let chapter = |subject: &str| {
        let results = report.results.iter();
        let results: Vec<&ProbeResult> =
            results.filter(|result| result.subject == subject).collect();
        chapter(subject, &results, style)
    };
    subjects.map(chapter).collect()
}

fn chapter(subject: &str, results: &[&ProbeResult], style: Style) -> String {
    let title = wrap(&printable(subject), style.width, 0, INDENT);
    let mut text = format!("\n{}\n", style.paint(Tone::Strong, &title));
    text.push_str(&line_of(&verified(results), style));
    text.push_str(&failures(results, INDENT, style, false));
    let mut backends: Vec<&str> = Vec::new();
    for result in results {
        if result.median.is_some() && !backends.contains(&result.backend.as_str()) {
            backends.push(&result.backend);
        }
    }
    if !backends.is_empty() {
        text.push_str(&line_of(&format!("by {}", backends.join("; ")), style));
    }
    text + &latencies_by_size(results, &mp::LATENCIES, style)
        + &bandwidths_by_size(results, &mp::BANDWIDTHS, style)
}
