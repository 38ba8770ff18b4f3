//! `docs/checks.md` and `docs/symptoms.md`: the registry of checks and the table of symptoms, for people who read.

use std::fmt::Write as _;

use gdr::check::{self, Check};
use gdr::explain;
use gdr::model::Severity;

/// Every check: what it asks, why, how it is read and mended.
pub fn checks() -> String {
    let mut page = String::from(
        "# The checks of gdr doctor\n\nGenerated from the registry by `cargo xtask generate`; `gdr explain ID` shows the same in a terminal. The \
         severity is the one where no profile says otherwise.\n",
    );
    for family in check::FAMILIES {
        // A String never refuses.
        let _ = write!(page, "\n## {}\n", family.title);
        for check in family.checks {
            entry(&mut page, check);
        }
    }
    page
}

fn entry(page: &mut String, check: &Check) {
    let severity = match check.severity {
        Severity::Error => "error",
        Severity::Warn => "warning",
        Severity::Info => "information",
    };
    let _ = write!(page, "\n### {}\n\n{}\n\n", check.id, plain(check.rule));
    for (label, text) in [
        ("Severity", severity),
        ("Why", check.why),
        ("Read from", check.sources),
        ("Cure", check.remedy),
    ] {
        let _ = writeln!(page, "- **{label}**: {}", plain(text));
    }
    let references: Vec<String> = check
        .references
        .iter()
        .map(|&reference| link(reference))
        .collect();
    if !references.is_empty() {
        let _ = writeln!(page, "- **See**: {}", references.join(", "));
    }
}

/// Every symptom: the line as users paste it, its cause, its checks, its threads.
pub fn symptoms() -> anyhow::Result<String> {
    let table = explain::shipped()?;
    let mut page = String::from(
        "# What people paste, and what causes it\n\nGenerated from `profiles/symptoms.toml` by `cargo xtask generate`. `gdr explain \
         \"LINE\"` and `gdr explain FILE` find these, name the causes, and run the checks on this machine. A score says how \
         surely a match means the cause.\n",
    );
    for symptom in &table.symptoms {
        section(
            &mut page,
            &symptom.name,
            &symptom.example,
            &symptom.cause,
            symptom.score,
            &symptom.checks,
            &symptom.sources,
        );
    }
    page.push_str(
        "\n# What no symptom knows word for word\n\nThese look for what a line speaks of, and say less surely what it means.\n",
    );
    for rule in &table.rules {
        section(
            &mut page,
            &rule.name,
            &rule.example,
            &rule.cause,
            rule.score,
            &rule.checks,
            &rule.sources,
        );
    }
    Ok(page)
}

fn section(
    page: &mut String,
    name: &str,
    example: &str,
    cause: &str,
    score: u8,
    checks: &[String],
    sources: &[String],
) {
    let links: Vec<String> = sources.iter().map(|source| link(source)).collect();
    // A String never refuses.
    let _ = write!(
        page,
        "\n## {name}\n\n```text\n{example}\n```\n\n{} (score {score})\n\n- **Checks**: {}\n- **See**: {}\n",
        plain(cause),
        checks.join(", "),
        links.join(", ")
    );
}

fn link(reference: &str) -> String {
    match reference.starts_with("http") {
        true => format!("<{reference}>"),
        false => plain(reference),
    }
}

/// Words that Markdown would take for its own.
fn plain(text: &str) -> String {
    text.replace('*', "\\*")
        .replace('_', "\\_")
        .replace('<', "\\<")
}
