//! The doctor's report as a page.

use super::comparison::comparison;
use super::page::{Page, mark, text};
use super::{facts, machine, made, name};
use crate::model::{Finding, Outcome, Remedy};
use crate::render::doctor::{Group, Report, Shown, explained, problems, root, verdict, word};
use crate::render::text::Tone;

/// `drawing` is the topology as SVG.
pub fn doctor(report: &Report<'_>, shown: &Shown<'_>, drawing: &str, taken: &str) -> String {
    let mut page = Page::new(&format!("GPUDirect on {}", name(report.host)), &machine(report.host));
    let problems = problems(report, shown);
    let (tone, words) = verdict(report);
    page.verdict(tone, &words);
    if let Some(step) = problems.steps.last() {
        page.step(&step.words(), step.command());
    }
    if let Some(hardware) = &report.hardware {
        page.remark(hardware);
    }
    for readiness in &report.readiness {
        page.remark(&readiness.text);
    }
    page.section("What is wrong");
    if problems.groups.is_empty() {
        page.paragraph("Nothing that the selected checks could find.");
    }
    for group in &problems.groups {
        let explains = root(report, group).and_then(explained);
        page.push(&article(group, explains, shown));
    }
    for line in &problems.missing {
        page.paragraph(&format!("Unknown: {line}"));
    }
    let numbered = problems.steps.len().saturating_sub(1);
    for line in &problems.steps[..numbered] {
        page.paragraph(&line.to_string());
    }
    if let Some(found) = &report.comparison {
        comparison(&mut page, found, false);
    }
    page.section("Topology");
    page.drawing("Drawing of the PCI tree", drawing);
    page.section("All checks");
    let summary = &report.summary;
    page.paragraph(&format!(
        "{} passed, {} failed, {} warnings, {} notes, {} unknown, {} skipped",
        summary.pass, summary.fail, summary.warn, summary.info, summary.unknown, summary.skip
    ));
    for (title, ids) in shown.families {
        let of_family: Vec<&Finding> =
            report.findings.iter().filter(|finding| ids.contains(&finding.id.as_str())).collect();
        if of_family.is_empty() {
            continue;
        }
        page.details(&format!("{title} ({})", of_family.len()), |page| {
            let rows = of_family.iter().map(|finding| row(finding));
            page.table(title, &["check", "result", "subject", "finding", "evidence"], rows);
        });
    }
    facts(&mut page, report.host);
    page.finish(&made(taken))
}

fn row(finding: &Finding) -> Vec<String> {
    let evidence = finding.evidence.iter().take(8);
    let evidence: Vec<String> = evidence
        .map(|evidence| text(&format!("{}: {}", evidence.source, evidence.value)))
        .collect();
    vec![
        text(&finding.id),
        mark(Tone::of_outcome(finding.outcome), word(finding.outcome)),
        text(&finding.subject),
        text(&finding.message),
        evidence.join("<br>"),
    ]
}

/// A finding with its evidence and its fix.
fn article(group: &Group<'_>, explains: Option<String>, shown: &Shown<'_>) -> String {
    let first = group.findings[0];
    let subjects: Vec<&str> = group.findings.iter().map(|one| one.subject.as_str()).collect();
    let mut html = format!(
        "<article>\n<h3>{} {} <span class=\"dim\">{}</span></h3>\n<p>{}</p>\n",
        mark(Tone::of_outcome(first.outcome), word(first.outcome)),
        text(&first.id),
        text(&subjects.join(", ")),
        text(&first.message)
    );
    let why = (shown.why)(&first.id);
    if !why.is_empty() && first.outcome != Outcome::Unknown {
        html.push_str(&format!("<p class=\"soft\">{}</p>\n", text(why)));
    }
    if let Some(explains) = explains {
        html.push_str(&format!("<p>Explains {}</p>\n", text(&explains)));
    }
    let evidence: Vec<String> = group
        .evidence()
        .into_iter()
        .map(|evidence| {
            format!(
                "<dt>{}</dt><dd><code>{}</code></dd>\n",
                text(&evidence.source),
                text(&evidence.value)
            )
        })
        .collect();
    if !evidence.is_empty() {
        html.push_str(&format!("<dl>\n{}</dl>\n", evidence.concat()));
    }
    if let Some(needs) = &first.needs {
        html.push_str(&format!("<p>Needs: {}</p>\n", text(needs)));
    }
    html.push_str(&fix(group, shown));
    html.push_str("</article>\n");
    html
}

fn fix(group: &Group<'_>, shown: &Shown<'_>) -> String {
    let Some(remedy) = &group.findings[0].fix else {
        return String::new();
    };
    let mut html = String::new();
    let mut commands: Vec<String> = group
        .findings
        .iter()
        .filter_map(|one| one.fix.as_ref()?.manual().command.clone())
        .collect();
    commands.dedup();
    if let Some(id) = remedy.id() {
        let command = format!("{} {id}", shown.fix);
        html.push_str(&format!(
            "<p>Fix{}:</p><pre>{}</pre>\n",
            text(shown.fix_where),
            text(&command)
        ));
    }
    if !commands.is_empty() {
        let label = if remedy.id().is_some() { "By hand" } else { "Fix" };
        let lines: Vec<String> = commands.iter().map(|command| text(command)).collect();
        html.push_str(&format!("<p>{label}:</p><pre>{}</pre>\n", lines.join("\n")));
    }
    if let Remedy::Repair { manual, .. } | Remedy::Advice(manual) = remedy
        && let Some(advice) = &manual.advice
    {
        html.push_str(&format!("<p>{}</p>\n", text(advice)));
    }
    html
}
