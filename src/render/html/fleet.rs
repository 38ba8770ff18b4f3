//! The report of a fleet as a page.

use super::heat::heat_map;
use super::made;
use super::page::{Page, mark, text};
use crate::model::FleetReport;
use crate::render::fleet::{SIMULATED, group_words, headline};
use crate::render::probe::size;
use crate::render::text::{Tone, counted};

pub fn fleet(report: &FleetReport, taken: &str) -> String {
    let mut page = Page::new("gdr fleet", "");
    if report.simulated {
        page.verdict(Tone::Fair, SIMULATED);
    }
    let (tone, words) = headline(report);
    page.verdict(tone, &words);
    for note in &report.notes {
        page.remark(note);
    }
    wrong(&mut page, report);
    page.section("Nodes that are alike");
    for (at, group) in report.groups.iter().enumerate() {
        let (title, nodes) = (group_words(group, at == 0), &group.nodes);
        page.push(&format!("<article>\n<h3>{}: {}</h3>\n", text(&title), text(nodes)));
        if !group.differences.is_empty() {
            let rows = group.differences.iter().map(|difference| {
                [Some(&difference.fact), difference.value.as_ref(), difference.majority.as_ref()]
                    .map(|value| text(value.map_or("none", |value| value)))
                    .to_vec()
            });
            page.table(
                &format!("Differences of {nodes}"),
                &["fact", "value here", "value of most nodes"],
                rows,
            );
        }
        page.push("</article>\n");
        if page.is_full() {
            break;
        }
    }
    if !report.facts.is_empty() {
        page.section("Facts that a few do not share");
        let rows = report.facts.iter().map(|fact| {
            let others = fact
                .outliers
                .iter()
                .map(|value| text(&format!("{} on {}", value.value, value.nodes)));
            vec![
                text(&fact.fact),
                text(fact.majority.as_deref().unwrap_or("none")),
                fact.count.to_string(),
                others.collect::<Vec<_>>().join("<br>"),
            ]
        });
        page.table("Majority and outliers", &["fact", "most nodes", "#nodes", "others"], rows);
    }
    figures(&mut page, report);
    page.section("Versions");
    let rows = report
        .versions
        .iter()
        .map(|version| vec![text(&version.value), version.count.to_string(), text(&version.nodes)]);
    page.table("Versions of gdr", &["version", "#nodes", "names"], rows);
    page.finish(&made(taken))
}

fn wrong(page: &mut Page, report: &FleetReport) {
    page.section("What is wrong");
    if report.absent.is_empty() && report.findings.is_empty() {
        page.paragraph("Nothing failed on any node.");
        return;
    }
    let absent = report.absent.iter().map(|absent| {
        vec![text(&absent.node), mark(Tone::Bad, absent.why.word()), text(&absent.reason)]
    });
    if !report.absent.is_empty() {
        page.table("Nodes without a report", &["node", "state", "reason"], absent);
    }
    let findings = report.findings.iter().map(|finding| {
        let tone = match finding.outcome.as_str() {
            "fail" => Tone::Bad,
            "warn" => Tone::Fair,
            _ => Tone::Dim,
        };
        vec![
            text(&finding.id),
            mark(tone, &finding.outcome),
            text(&finding.subject),
            text(&finding.message),
            finding.count.to_string(),
            text(&finding.nodes),
        ]
    });
    if !report.findings.is_empty() {
        page.table(
            "Findings",
            &["check", "result", "subject", "finding", "#nodes", "names"],
            findings,
        );
    }
    steps(page, report);
}

/// The next step of each node that has one.
fn steps(page: &mut Page, report: &FleetReport) {
    let nodes = report.nodes.iter();
    let rows: Vec<Vec<String>> = nodes
        .filter_map(|node| {
            let step = node.next_step.as_ref()?;
            let reason = node.reasons.first().map_or("", String::as_str);
            Some(vec![text(&node.name), text(reason), text(step)])
        })
        .collect();
    if !rows.is_empty() {
        page.details(&format!("What to do first on {}", counted(rows.len(), "node")), |page| {
            page.table("Next steps", &["node", "first reason", "next step"], rows);
        });
    }
}

fn figures(page: &mut Page, report: &FleetReport) {
    if !report.figures.is_empty() {
        page.section("Slower than the other nodes");
        let rows = report.figures.iter().map(|figure| {
            let bytes = figure.bytes.map_or(String::new(), |bytes| format!(", {}", size(bytes)));
            vec![
                text(&figure.node),
                text(&figure.subject),
                text(&format!("{}{bytes}", figure.name)),
                format!("{:.2} {}", figure.value, text(&figure.unit)),
                format!("{:.2}", figure.median),
                format!("{:.0} %", figure.loss),
            ]
        });
        page.table(
            "Figures that are worse than the median of all nodes",
            &["node", "subject", "test", "#here", "#median", "#worse by"],
            rows,
        );
    }
    if let Some(heat) = &report.heat {
        page.section("Links");
        page.drawing("Heat map of the links", &heat_map(heat));
        let rows = report.links.iter().map(|link| {
            vec![
                text(&format!("{}: {}", link.node, link.from)),
                text(&link.to),
                text(&link.name),
                format!("{:.1}", link.value),
                format!("{:.1}", link.median),
                format!("{:.0} %", link.share * 100.0),
            ]
        });
        page.table(
            "The slowest links",
            &["from", "to", "test", "#GB/s", "#median", "#share"],
            rows,
        );
    }
}
