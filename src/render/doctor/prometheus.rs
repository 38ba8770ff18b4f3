//! The report as metrics in Prometheus's text format, for the textfile collector of the node exporter.
//!
//! The format is that of <https://prometheus.io/docs/instrumenting/exposition_formats/>: HELP and TYPE before the
//! samples of a metric, label values with backslash, quote and line feed escaped, no sample twice.

use std::collections::BTreeSet;

use super::{Report, counts, severity};
use crate::model::{Outcome, ReadyState};
use crate::output::is_hidden;

/// The report.
pub fn prometheus(report: &Report<'_>) -> String {
    let mut page = String::new();
    let mut metric = |name: &str, help: &str, samples: Vec<(String, u64)>| {
        page.push_str(&format!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
        // A sample may be there once: a check may say two things of one subject, and two names may print alike.
        let mut seen = BTreeSet::new();
        for (labels, value) in samples {
            if !seen.contains(&labels) {
                page.push_str(&format!("{name}{{{labels}}} {value}\n"));
                seen.insert(labels);
            }
        }
    };
    metric(
        "gdr_build_info",
        "The gdr that wrote this, as its version.",
        vec![(label("version", env!("CARGO_PKG_VERSION")), 1)],
    );
    let ready = report.readiness.iter().map(|readiness| {
        let ready = u64::from(readiness.state == ReadyState::Ready);
        (label("profile", &readiness.profile), ready)
    });
    metric(
        "gdr_ready",
        "Whether the machine is ready for the profile everywhere.",
        ready.collect(),
    );
    let places = report.readiness.iter().flat_map(|readiness| {
        readiness.ready.iter().map(|place| {
            let labels = [label("profile", &readiness.profile), label("place", place)];
            (labels.join(","), 1)
        })
    });
    metric(
        "gdr_ready_place",
        "A GPU, or a GPU with its partner, that is ready for the profile.",
        places.collect(),
    );
    let sums = counts(&report.summary).map(|(_, count, word)| (label("outcome", word), count as u64));
    metric("gdr_findings", "How many findings ended so.", sums.to_vec());
    let findings = report
        .findings
        .iter()
        .filter(|finding| finding.outcome != Outcome::Skip)
        .map(|finding| {
            let outcome = super::word(finding.outcome).to_ascii_lowercase();
            let labels = [
                label("check", &finding.id),
                label("subject", &finding.subject),
                label("severity", severity(finding.severity)),
                label("outcome", &outcome),
            ]
            .join(",");
            (labels, 1)
        });
    metric("gdr_finding", "A finding of a check on a subject.", findings.collect());
    page
}

fn label(name: &str, value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if is_hidden(c) => text.push('?'),
            c => text.push(c),
        }
    }
    format!("{name}=\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_holds_any_text() {
        assert_eq!(label("a", "x\"y\\z\n"), "a=\"x\\\"y\\\\z\\n\"");
        assert_eq!(label("a", "x\r\u{1b}\u{202e}é"), "a=\"x???é\"");
    }
}
