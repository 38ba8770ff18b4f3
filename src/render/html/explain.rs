//! An explanation as a page: the job with its matrix of ranks, and the causes.

use super::made;
use super::page::{Page, mark, text};
use super::ranks::matrix;
use crate::model::{Allowed, ExplainReport, Job, Loss, SymptomMatch};
use crate::render::job::{
    HEADER, LIBRARY_HEADER, cells, failure_words, headline, library_name, library_rows,
    machine_words, summary_words,
};
use crate::render::text::{Tone, counted};

/// Communicators that are shown.
const MAX_COMMUNICATORS: usize = 8;

pub fn explain(report: &ExplainReport, taken: &str) -> String {
    let mut page = Page::new(&format!("gdr explain: {}", report.asked), "");
    let (tone, words) = match &report.job {
        Some(job) => headline(job),
        None => match report.matches.len() {
            0 => (Tone::Fair, "No known symptom.".to_owned()),
            _ => (Tone::Bad, counted(causes(report).len() as u64, "cause") + "."),
        },
    };
    page.verdict(tone, &words);
    if let Some(reason) = &report.not_inspected {
        page.remark(reason);
    }
    if let Some(job) = &report.job {
        of_job(&mut page, job);
    }
    for check in &report.checks {
        page.section(&check.id);
        page.facts([
            ("rule", check.rule.clone()),
            ("why", check.why.clone()),
            ("read", check.sources.clone()),
            ("fix", check.remedy.clone()),
        ]);
    }
    if !report.matches.is_empty() {
        page.section("Causes");
        let rows = causes(report).into_iter().map(|found| {
            let line = format!("{}: {}", found.line.place(), found.line.text);
            vec![text(&found.cause), text(&line), text(&found.check), text(&found.remedy)]
        });
        page.table("Causes of the symptom table", &["cause", "line", "check", "fix"], rows);
    }
    if !report.uncovered.is_empty() {
        page.section("Without a check");
        let rows = report.uncovered.iter().map(|failure| {
            vec![
                text(&failure.subject),
                text(&format!("{}: {}", failure.line.place(), failure.line.text)),
            ]
        });
        page.table("Failures that gdr has no check for", &["failure", "line"], rows);
    }
    page.finish(&made(taken))
}

/// The best match of each cause.
fn causes(report: &ExplainReport) -> Vec<&SymptomMatch> {
    let mut causes: Vec<&SymptomMatch> = Vec::new();
    for found in &report.matches {
        if !causes.iter().any(|known| known.cause == found.cause) {
            causes.push(found);
        }
    }
    causes
}

fn of_job(page: &mut Page, job: &Job) {
    page.section("Job");
    page.paragraph(&summary_words(job));
    for (at, communicator) in job.communicators.iter().enumerate().take(MAX_COMMUNICATORS) {
        if communicator.paths.is_empty() {
            continue;
        }
        let name = format!("Paths of communicator {}", at + 1);
        page.section(&name);
        if let Some(drawing) = matrix(communicator) {
            page.drawing(&format!("Matrix of communicator {}", at + 1), &drawing);
        }
        let rows = communicator
            .paths
            .iter()
            .map(|path| cells(path, &job.gpu_paths).map(|cell| text(&cell)).to_vec());
        page.table(&name, &HEADER, rows);
    }
    for library in job.libraries.iter().filter(|library| !library.paths.is_empty()) {
        let name = format!("Paths of {}", library_name(library));
        page.section(&name);
        let rows = library_rows(library).into_iter();
        page.table(&name, &LIBRARY_HEADER, rows.map(|row| row.map(|cell| text(&cell)).to_vec()));
    }
    if !job.lost.is_empty() {
        page.section("Lost paths");
        let rows = job.lost.iter().map(|loss| {
            let line =
                loss.line.as_ref().map_or(String::new(), |line| format!(" ({})", line.place()));
            let factor = loss.bandwidth.map_or(String::new(), |lost| format!("{:.1}", lost.factor));
            vec![
                text(&loss.what),
                mark(tone(loss), word(loss)),
                text(&format!("{}{line}", loss.why)),
                text(machine_words(loss)),
                text(&factor),
            ]
        });
        page.table("Slower paths and why", &["path", "lost", "why", "machine", "#factor"], rows);
    }
    if !job.failures.is_empty() {
        page.section("Failures");
        let rows = job.failures.iter().map(|failure| {
            let details: Vec<String> =
                failure.details.iter().map(|detail| text(&detail.text)).collect();
            let line = format!("{}: {}", failure.line.place(), failure.line.text);
            vec![text(&failure_words(failure)), text(&line), details.join("<br>")]
        });
        page.table("Failures by rank", &["failure", "first line", "details"], rows);
    }
}

fn tone(loss: &Loss) -> Tone {
    match loss.allowed {
        Allowed::Yes => Tone::Bad,
        Allowed::Unknown => Tone::Fair,
        Allowed::No => Tone::Dim,
    }
}

fn word(loss: &Loss) -> &'static str {
    match loss.allowed {
        Allowed::Yes => "slower",
        Allowed::Unknown => "unknown",
        Allowed::No => "best",
    }
}
