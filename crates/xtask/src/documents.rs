//! Renders the registry of checks as `docs/checks.md` and the table of symptoms as `docs/symptoms.md`.

use std::fmt::Write as _;

use gdr::check::{self, Check};
use gdr::explain;
use gdr::model::Severity;

/// Every check: what it asks, why, its sources and its fix.
pub fn checks() -> String {
    let mut page = String::from(
        "# Checks\n\nThe checks of `gdr doctor`. `gdr explain ID` shows the same in a terminal. A profile may set another severity. Generated \
         by `cargo xtask generate`.\n",
    );
    for family in check::FAMILIES {
        // Writing to a String cannot fail.
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
        ("Fix", check.remedy),
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

/// Every symptom: the line as users paste it, its cause, its checks, its sources.
pub fn symptoms() -> anyhow::Result<String> {
    let table = explain::shipped()?;
    let mut page = String::from(
        "# Symptoms\n\nThe lines that `gdr explain` recognizes, their causes, and the checks it runs for them. A score says how likely \
         a match means the cause. Generated from `profiles/symptoms.toml` by `cargo xtask generate`.\n",
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
        "\n# Hints\n\nWhat a question is about points to checks, too: each concept in it adds points to some checks and takes them from \
         others. This needs a question or a few picked lines; it does not apply to logs.\n\n| Check | Cause | Concepts and points |\n| --- | \
         --- | --- |\n",
    );
    for hint in &table.hints {
        let words: Vec<String> = hint
            .words
            .iter()
            .map(|(word, points)| format!("{word} {points:+}"))
            .collect();
        let _ = writeln!(
            page,
            "| {} | {} | {} |",
            hint.check,
            plain(&hint.cause),
            words.join(", ")
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
    // Writing to a String cannot fail.
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

/// Escapes what Markdown would interpret.
fn plain(text: &str) -> String {
    text.replace('*', "\\*")
        .replace('_', "\\_")
        .replace('<', "\\<")
}
