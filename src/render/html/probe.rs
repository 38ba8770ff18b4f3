//! A probe's report as a page.

use super::page::{Page, mark, text};
use super::{facts, machine, made, name};
use crate::model::{
    Change, DiffReport, Finding, Outcome, ProbeReport, ProbeResult, ProbeVerdict, size,
};
use crate::render::probe::{SIMULATED, figure_or_dash, svg, verdict};
use crate::render::text::Tone;

pub fn probe(report: &ProbeReport, taken: &str) -> String {
    let title = format!("gdr probe {} on {}", report.probe.name(), name(&report.host));
    let mut page = Page::new(&title, &machine(&report.host));
    if report.simulated {
        page.verdict(Tone::Fair, SIMULATED);
    }
    if let Some((tone, word, rest)) = verdict(report) {
        page.verdict(tone, &format!("{word}{rest}"));
    }
    if let Some(step) = &report.next_step {
        page.step("Next step:", Some(&step.line()));
    }
    for note in &report.notes {
        page.remark(note);
    }
    failures(&mut page, report);
    if let Some(diff) = &report.baseline {
        compared(&mut page, diff);
    }
    if report.results.iter().any(|result| result.verdict != ProbeVerdict::Impossible) {
        page.section("Curves");
        page.drawing("Curves of bandwidth over size", &svg(report));
    }
    figures(&mut page, &report.results);
    facts(&mut page, &report.host);
    page.finish(&made(taken))
}

/// Results that are not ok, and findings.
fn failures(page: &mut Page, report: &ProbeReport) {
    let failed: Vec<&ProbeResult> =
        report.results.iter().filter(|result| matters(result)).collect();
    if !failed.is_empty() || !report.findings.is_empty() {
        page.section("What is wrong");
        let rows = failed.iter().map(|result| {
            vec![
                text(&result.subject),
                mark(tone(result), result.verdict.word(result.median.is_some())),
                text(&words(result)),
                text(result.reason.as_deref().unwrap_or("")),
            ]
        });
        page.table(
            "Results that are not ok",
            &["subject", "result", "test", "reason"],
            rows.chain(report.findings.iter().filter_map(unexpected)),
        );
    }
}

/// Figures beside those of the baseline.
fn compared(page: &mut Page, diff: &DiffReport) {
    page.section("Baseline");
    page.paragraph(&format!("Compared with {}", diff.a.source));
    let row = |change: &&Change| {
        let figure = change.figure.as_ref()?;
        let (tone, word) = match (figure.regression, change.matters()) {
            (true, _) => (Tone::Bad, "worse"),
            (false, true) => (Tone::Good, "differs"),
            (false, false) => (Tone::Dim, "as before"),
        };
        let percent = figure.percent.map_or("-".to_owned(), |percent| format!("{percent:+.1} %"));
        Some(vec![
            text(&change.area),
            mark(tone, word),
            text(&change.fact),
            text(change.a.as_deref().unwrap_or("none")),
            text(change.b.as_deref().unwrap_or("none")),
            text(&percent),
        ])
    };
    let is_different = |change: &&Change| {
        let figure = change.figure.as_ref();
        change.matters() || figure.is_some_and(|figure| figure.regression)
    };
    let headings = ["subject", "result", "test", "#before", "#now", "#change"];
    let (differ, same): (Vec<&Change>, Vec<&Change>) = diff.changes.iter().partition(is_different);
    if !differ.is_empty() {
        let rows = differ.iter().filter_map(row);
        page.table("Figures that differ from the baseline", &headings, rows);
    }
    if !same.is_empty() {
        page.details(&format!("{} as before", same.len()), |page| {
            let rows = same.iter().filter_map(row);
            page.table("Figures that are as in the baseline", &headings, rows);
        });
    }
}

/// A table of all results, folded: those that are not ok stand above.
fn figures(page: &mut Page, results: &[ProbeResult]) {
    page.section("Figures");
    let rows = results.iter().map(|result| {
        vec![
            text(&result.subject),
            text(&result.name),
            text(&result.bytes.map_or(String::new(), size)),
            text(&figure_or_dash(result.median)),
            text(&result.unit),
            text(&figure_or_dash(result.p5)),
            text(&figure_or_dash(result.p95)),
            text(&figure_or_dash(result.expected)),
            mark(tone(result), result.verdict.word(result.median.is_some())),
        ]
    });
    let passed = results.iter().filter(|result| !matters(result)).count();
    let summary = format!("All {} results, {passed} of them without a problem", results.len());
    page.details(&summary, |page| {
        page.table(
            "All results",
            &["subject", "test", "#size", "#median", "unit", "#5 %", "#95 %", "#link", "result"],
            rows,
        );
    });
}

fn matters(result: &ProbeResult) -> bool {
    !matches!(result.verdict, ProbeVerdict::Ok | ProbeVerdict::NotMeasured)
}

fn words(result: &ProbeResult) -> String {
    let bytes = result.bytes.map_or(String::new(), |bytes| format!(", {}", size(bytes)));
    format!("{}{bytes}", result.name)
}

fn tone(result: &ProbeResult) -> Tone {
    match result.verdict {
        ProbeVerdict::Ok => Tone::Good,
        ProbeVerdict::Slow => Tone::Fair,
        ProbeVerdict::Impossible if !result.required => Tone::Fair,
        ProbeVerdict::Wrong | ProbeVerdict::Impossible => Tone::Bad,
        ProbeVerdict::NotMeasured => Tone::Dim,
    }
}

fn unexpected(finding: &Finding) -> Option<Vec<String>> {
    (finding.outcome != Outcome::Pass).then(|| {
        vec![
            text(&finding.subject),
            mark(Tone::of_outcome(finding.outcome), "not as expected"),
            text(&finding.id),
            text(&finding.message),
        ]
    })
}
