//! The report as one line that names what failed: the reason of a scheduler that drains a node.

use super::Report;
use crate::model::{Finding, Outcome};
use crate::render::text::printable;

/// Most characters of the line. Slurm and Kubernetes show longer ones cut.
const MAX_CHARACTERS: usize = 240;

/// `matters`: an unknown finding leaves a requirement open.
pub fn line(report: &Report<'_>, matters: &dyn Fn(&Finding) -> bool) -> String {
    let named = |wanted: &dyn Fn(&&Finding) -> bool| {
        let findings = report.findings.iter().filter(wanted);
        let names = findings.map(|finding| format!("{} ({})", finding.id, finding.subject));
        names.collect::<Vec<_>>().join(", ")
    };
    let failed = |finding: &&Finding| finding.outcome == Outcome::Fail;
    let unknown = |finding: &&Finding| finding.outcome == Outcome::Unknown && matters(finding);
    let text = match (report.findings.iter().find(failed), named(&unknown)) {
        (Some(first), _) => format!("gdr: {}: {}", named(&failed), first.message),
        (None, unknown) if !unknown.is_empty() => format!("gdr: unknown: {unknown}"),
        (None, _) => "gdr: nothing failed".to_owned(),
    };
    let text = printable(&text).replace('\n', " ");
    match text.char_indices().nth(MAX_CHARACTERS - 3) {
        Some((end, _)) if text.chars().count() > MAX_CHARACTERS => format!("{}...\n", &text[..end]),
        _ => format!("{text}\n"),
    }
}
