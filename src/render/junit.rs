//! JUnit XML, which CI systems show: one case for each finding, result or node.

mod explain;

pub use explain::explain;

use std::collections::HashMap;
use std::fmt::Write as _;

use super::comparison::sentence;
use super::doctor::Report;
use super::svg::escape;
use crate::model::{
    Comparison, Difference, DifferenceKind, FleetNode, FleetReport, FleetState, NodeAction,
    Outcome, ProbeReport, ProbeVerdict, Remedy,
};

struct Case {
    /// The group that CI systems show it in.
    class: String,
    name: String,
    result: CaseResult,
}

enum CaseResult {
    Passed,
    Failed(String),
    /// It could not be determined.
    Error(String),
    Skipped(String),
}

pub fn doctor(report: &Report<'_>, matters: &dyn Fn(&crate::model::Finding) -> bool) -> String {
    let cases = report.findings.iter().map(|finding| {
        let evidence = finding
            .evidence
            .iter()
            .map(|evidence| format!("\n{}: {}", evidence.source, evidence.value));
        let remedy = finding.fix.as_ref().map(Remedy::manual);
        let remedy = remedy.into_iter().flat_map(|manual| [&manual.command, &manual.advice]);
        let remedy = remedy.flatten().map(|text| format!("\nfix: {text}"));
        let action = finding.action.iter().map(|action| {
            let drain = if action.drain { ", with the node drained" } else { "" };
            let fix = finding.fix.as_ref().and_then(Remedy::id);
            format!("\naction: {}{drain} ({})", action.words(fix), action.source)
        });
        let below = evidence.chain(remedy).chain(action).collect::<String>();
        let text = format!("{}{below}", finding.message);
        Case {
            class: format!("gdr.doctor.{}", finding.id),
            name: finding.subject.clone(),
            result: match finding.outcome {
                Outcome::Fail => CaseResult::Failed(text),
                Outcome::Unknown if matters(finding) => CaseResult::Error(text),
                Outcome::Skip | Outcome::Unknown => CaseResult::Skipped(text),
                Outcome::Pass | Outcome::Warn | Outcome::Info => CaseResult::Passed,
            },
        }
    });
    let cases: Vec<Case> = cases.chain(since(report.comparison.as_ref(), false)).collect();
    document("gdr doctor", &cases)
}

/// A case for each difference from an earlier report. A new failure, rising errors and a node whose report is missing fail it; what is still
/// wrong has a case of its own elsewhere.
fn since(comparison: Option<&Comparison>, with_nodes: bool) -> Vec<Case> {
    let differences = comparison.iter().flat_map(|comparison| &comparison.differences);
    let differences = differences.filter(|difference| difference.kind != DifferenceKind::Still);
    let case = |difference: &Difference| {
        let text = sentence(difference, with_nodes);
        let result = match (difference.kind, difference.now.as_deref()) {
            (DifferenceKind::New | DifferenceKind::Changed, Some(now))
                if now.starts_with("fail") =>
            {
                CaseResult::Failed(text.clone())
            }
            (DifferenceKind::Counter, _) | (DifferenceKind::Node, None) => {
                CaseResult::Failed(text.clone())
            }
            _ => CaseResult::Passed,
        };
        Case { class: format!("gdr.baseline.{}", difference.kind.word()), name: text, result }
    };
    differences.map(case).collect()
}

pub fn probe(report: &ProbeReport) -> String {
    let step = report.next_step.as_ref().map(|step| format!("next step: {}", step.line()));
    let failed = |reason: String| {
        let lines: Vec<String> = [reason].into_iter().chain(step.clone()).collect();
        CaseResult::Failed(lines.join("\n"))
    };
    let results = report.results.iter().map(|result| {
        let bytes = result.bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
        let reason = result.reason.clone().unwrap_or_default();
        Case {
            class: format!("gdr.probe.{}", result.name),
            name: format!("{}{bytes}", result.subject),
            result: match result.verdict {
                ProbeVerdict::Wrong => failed(reason),
                ProbeVerdict::Impossible if result.required => failed(reason),
                ProbeVerdict::Impossible | ProbeVerdict::NotMeasured => CaseResult::Skipped(reason),
                ProbeVerdict::Ok | ProbeVerdict::Slow => CaseResult::Passed,
            },
        }
    });
    let findings = report.findings.iter().map(|finding| Case {
        class: format!("gdr.probe.{}", finding.id),
        name: finding.subject.clone(),
        result: match finding.outcome {
            Outcome::Fail => failed(finding.message.clone()),
            _ => CaseResult::Passed,
        },
    });
    let baseline = report.baseline.iter().flat_map(|diff| &diff.changes);
    let baseline = baseline.filter_map(|change| {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        let words = format!("was {}, is {}", text(&change.a), text(&change.b));
        Some(Case {
            class: "gdr.probe.baseline".to_owned(),
            name: format!("{}, {}", change.area, change.fact),
            result: if change.figure.as_ref()?.regression {
                failed(words)
            } else {
                CaseResult::Passed
            },
        })
    });
    let whole = Case {
        class: "gdr.probe".to_owned(),
        name: "complete".to_owned(),
        result: if report.complete {
            CaseResult::Passed
        } else {
            CaseResult::Error(report.notes.join("\n"))
        },
    };
    let cases: Vec<Case> = results.chain(findings).chain(baseline).chain([whole]).collect();
    document(&format!("gdr probe {}", report.probe.name()), &cases)
}

pub fn fleet(report: &FleetReport) -> String {
    let absent = report.absent.iter().map(|absent| Case {
        class: "gdr.fleet.node".to_owned(),
        name: absent.node.clone(),
        result: CaseResult::Failed(format!("{}: {}", absent.why.word(), absent.reason)),
    });
    let findings = report.findings.iter().map(|finding| {
        let text = format!("{} (on {})", finding.message, finding.nodes);
        Case {
            class: format!("gdr.fleet.{}", finding.id),
            name: finding.subject.clone(),
            result: match finding.outcome.as_str() {
                "fail" => CaseResult::Failed(text),
                "unknown" => CaseResult::Error(text),
                _ => CaseResult::Passed,
            },
        }
    });
    let actions: HashMap<&str, &NodeAction> =
        report.actions.iter().map(|action| (action.node.as_str(), action)).collect();
    let reasons = |node: &FleetNode| reasons(node, actions.get(node.name.as_str()).copied());
    let nodes = report.nodes.iter().map(|node| Case {
        class: "gdr.fleet.node".to_owned(),
        name: node.name.clone(),
        result: match node.state {
            FleetState::Ok => CaseResult::Passed,
            FleetState::Failed | FleetState::Slow => CaseResult::Failed(reasons(node)),
            FleetState::Undetermined => CaseResult::Error(reasons(node)),
        },
    });
    let since = since(report.comparison.as_ref(), true);
    let cases = absent.chain(nodes).chain(findings).chain(since);
    document("gdr fleet", &cases.collect::<Vec<_>>())
}

/// What failed or is unknown on a node, and what to do.
fn reasons(node: &FleetNode, action: Option<&NodeAction>) -> String {
    let action = action.map(|action| {
        let drain = if action.action.drain { ", with the node drained" } else { "" };
        format!("action: {}{drain}", action.text)
    });
    let step = node.next_step.as_ref();
    let step = step.map(|step| format!("next step: {step}"));
    let lines: Vec<String> = node.reasons.iter().cloned().chain(action).chain(step).collect();
    lines.join("\n")
}

fn document(suite: &str, cases: &[Case]) -> String {
    let count = |is: fn(&CaseResult) -> bool| cases.iter().filter(|case| is(&case.result)).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n\
         <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
        escape(suite),
        cases.len(),
        count(|result| matches!(result, CaseResult::Failed(_))),
        count(|result| matches!(result, CaseResult::Error(_))),
        count(|result| matches!(result, CaseResult::Skipped(_)))
    );
    for case in cases {
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            "<testcase classname=\"{}\" name=\"{}\"",
            escape(&case.class),
            escape(&case.name)
        );
        let _ = match &case.result {
            CaseResult::Passed => writeln!(out, "/>"),
            CaseResult::Failed(text) => result(&mut out, "failure", text),
            CaseResult::Error(text) => result(&mut out, "error", text),
            CaseResult::Skipped(text) => result(&mut out, "skipped", text),
        };
    }
    out.push_str("</testsuite>\n</testsuites>\n");
    out
}

fn result(out: &mut String, tag: &str, text: &str) -> std::fmt::Result {
    let (first, lines) = text.split_once('\n').unwrap_or((text, ""));
    let lines: Vec<String> = lines.lines().map(escape).collect();
    writeln!(out, "><{tag} message=\"{}\">{}</{tag}></testcase>", escape(first), lines.join("\n"))
}
