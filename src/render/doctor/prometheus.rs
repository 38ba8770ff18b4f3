//! The report as metrics in Prometheus's text format, for the textfile collector of the node exporter.
//!
//! Format: <https://prometheus.io/docs/instrumenting/exposition_formats/>. HELP and TYPE precede the samples of a
//! metric; backslash, quote and line feed are escaped in label values; samples are unique.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{Report, counts};
use crate::model::{Finding, Outcome, ReadyState};
use crate::output::is_hidden;

pub fn prometheus(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    head(out, "gdr_build_info", "Version of the gdr that wrote this file.")?;
    let version = label("version", env!("CARGO_PKG_VERSION"));
    writeln!(out, "gdr_build_info{{{version}}} 1")?;
    head(out, "gdr_ready", "1 if the whole machine is ready for the profile.")?;
    for readiness in &report.readiness {
        let ready = u64::from(readiness.state == ReadyState::Ready);
        writeln!(out, "gdr_ready{{{}}} {ready}", label("profile", &readiness.profile))?;
    }
    head(
        out,
        "gdr_ready_place",
        "A GPU, or a GPU with its partner, that is ready for the profile.",
    )?;
    // Samples must be unique, but a check may have two findings for one subject, and two names may print alike.
    let mut written = BTreeSet::new();
    for readiness in &report.readiness {
        let profile = label("profile", &readiness.profile);
        for place in &readiness.ready {
            let labels = format!("{profile},{}", label("place", place));
            if !written.contains(&labels) {
                writeln!(out, "gdr_ready_place{{{labels}}} 1")?;
                written.insert(labels);
            }
        }
    }
    head(out, "gdr_findings", "Number of findings by outcome.")?;
    for (_, count, word) in counts(&report.summary) {
        writeln!(out, "gdr_findings{{{}}} {count}", label("outcome", word))?;
    }
    head(out, "gdr_finding", "A finding of a check on a subject.")?;
    written.clear();
    for finding in report.findings.iter().filter(|finding| finding.outcome != Outcome::Skip) {
        let Finding { id, subject, severity, outcome, .. } = finding;
        let labels = [
            label("check", id),
            label("subject", subject),
            label("severity", super::severity(*severity)),
            label("outcome", &super::word(*outcome).to_ascii_lowercase()),
        ]
        .join(",");
        if !written.contains(&labels) {
            writeln!(out, "gdr_finding{{{labels}}} 1")?;
            written.insert(labels);
        }
    }
    Ok(())
}

fn head(out: &mut dyn Write, name: &str, help: &str) -> io::Result<()> {
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")
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
    fn escapes_label_values() {
        assert_eq!(label("a", "x\"y\\z\n"), "a=\"x\\\"y\\\\z\\n\"");
        assert_eq!(label("a", "x\r\u{1b}\u{202e}é"), "a=\"x???é\"");
    }
}
