//! The report as metrics in Prometheus's text format, for the textfile collector of the node exporter.
//!
//! The format is that of <https://prometheus.io/docs/instrumenting/exposition_formats/>: HELP and TYPE before the
//! samples of a metric, label values with backslash, quote and line feed escaped, no sample twice.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{Report, counts};
use crate::model::{Finding, Outcome, ReadyState};

/// Writes the report.
pub fn prometheus(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    head(out, "gdr_build_info", "The gdr that wrote this, as its version.")?;
    let version = label("version", env!("CARGO_PKG_VERSION"));
    writeln!(out, "gdr_build_info{{{version}}} 1")?;
    head(
        out,
        "gdr_ready",
        "Whether the machine is ready for the profile everywhere.",
    )?;
    for readiness in &report.readiness {
        let ready = u64::from(readiness.state == ReadyState::Ready);
        writeln!(out, "gdr_ready{{{}}} {ready}", label("profile", &readiness.profile))?;
    }
    head(
        out,
        "gdr_ready_place",
        "A GPU, or a GPU with its partner, that is ready for the profile.",
    )?;
    for readiness in &report.readiness {
        let profile = label("profile", &readiness.profile);
        for place in &readiness.ready {
            writeln!(out, "gdr_ready_place{{{profile},{}}} 1", label("place", place))?;
        }
    }
    head(out, "gdr_findings", "How many findings ended so.")?;
    for (_, count, word) in counts(&report.summary) {
        writeln!(out, "gdr_findings{{{}}} {count}", label("outcome", word))?;
    }
    head(out, "gdr_finding", "A finding of a check on a subject.")?;
    let mut seen = BTreeSet::new();
    for finding in report
        .findings
        .iter()
        .filter(|finding| finding.outcome != Outcome::Skip)
    {
        // A check may say two things of one subject; a sample may be there once.
        let Finding {
            id,
            subject,
            severity,
            outcome,
            ..
        } = finding;
        if !seen.insert((id, subject, severity, outcome)) {
            continue;
        }
        let labels = [
            label("check", id),
            label("subject", subject),
            label("severity", super::severity(*severity)),
            label("outcome", &super::word(*outcome).to_ascii_lowercase()),
        ];
        writeln!(out, "gdr_finding{{{}}} 1", labels.join(","))?;
    }
    Ok(())
}

fn head(out: &mut dyn Write, name: &str, help: &str) -> io::Result<()> {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_holds_any_text() {
        assert_eq!(label("a", "x\"y\\z\n"), "a=\"x\\\"y\\\\z\\n\"");
    }
}
