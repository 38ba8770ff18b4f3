//! The report of a fleet as a page.

use super::comparison::comparison;
use super::heat::heat_map;
use super::made;
use super::page::{Page, mark, text};
use crate::model::{FleetReport, FleetTopology, NodeAction, NodeGroup, NodeProblem};
use crate::render::fleet::{
    ActionRow, ActionTable, FindingRow, SIMULATED, action_table, finding_rows, group_words,
    headline,
};
use crate::render::probe::size;
use crate::render::text::{Tone, counted};

/// Most rows of a table that is not folded.
const OPEN: usize = 12;
/// Most groups that are not folded.
const OPEN_GROUPS: usize = 6;

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
    actions(&mut page, report);
    if let Some(found) = &report.comparison {
        comparison(&mut page, found, true);
    }
    if let Some(topology) = &report.topology {
        shared_topology(&mut page, topology);
    }
    wrong(&mut page, report);
    figures(&mut page, report);
    page.section("Nodes that are alike");
    groups(&mut page, report);
    if !report.facts.is_empty() {
        page.section("Facts that a few do not share");
        let summary = counted(report.facts.len(), "fact");
        page.details(&summary, |page| facts(page, report));
    }
    page.section("Versions");
    let rows = report
        .versions
        .iter()
        .map(|version| vec![text(&version.value), version.count.to_string(), text(&version.nodes)]);
    page.table("Versions of gdr", &["version", "#nodes", "names"], rows);
    page.finish(&made(taken))
}

/// The nodes that need an action, each once.
fn actions(page: &mut Page, report: &FleetReport) {
    page.section("Nodes that need an action");
    let ActionTable { columns, rows } = action_table(report);
    if rows.is_empty() {
        page.paragraph("No node needs an action.");
        return;
    }
    // The first cell of a row is its heading.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|at| columns[*at].heading != NodeAction::NODE);
    let headings: Vec<&str> = order.iter().map(|at| columns[*at].heading).collect();
    let cell =
        |row: &ActionRow, at: &usize| cell(columns[*at].heading, row.problem, &row.cells[*at]);
    let rows = rows.iter().map(|row| order.iter().map(|at| cell(row, at)).collect());
    page.table("Nodes and what to do about them", &headings, rows);
}

fn cell(heading: &str, problem: NodeProblem, words: &str) -> String {
    match heading {
        NodeAction::STATE => {
            let tone = match problem {
                NodeProblem::Failed | NodeProblem::Absent => Tone::Bad,
                NodeProblem::Slow | NodeProblem::Warned => Tone::Fair,
                NodeProblem::Undetermined => Tone::Dim,
            };
            mark(tone, words)
        }
        NodeAction::NODE => hosts(words),
        NodeAction::DRAIN if !words.is_empty() => "yes".to_owned(),
        // A long address may wrap.
        NodeAction::SOURCE => {
            let source = text(words).replace('/', "/<wbr>");
            format!("<span class=\"source\">{source}</span>")
        }
        _ => text(words),
    }
}

/// The topology that most nodes share, once.
fn shared_topology(page: &mut Page, topology: &FleetTopology) {
    page.section("The topology of most nodes");
    let names = topology.devices.iter().map(|device| device.name.as_str());
    let headings: Vec<&str> = [""].into_iter().chain(names).collect();
    let rows = topology.matrix.iter().map(|row| {
        let classes = row.classes.iter().map(|class| text(class.as_deref().unwrap_or("?")));
        [text(&row.from)].into_iter().chain(classes).collect()
    });
    page.table("Paths between the devices", &headings, rows);
    page.details(&counted(topology.devices.len(), "device"), |page| {
        page.facts(
            topology
                .devices
                .iter()
                .map(|device| (device.name.as_str(), device.description.clone())),
        );
    });
}

/// The first groups; the others are folded.
fn groups(page: &mut Page, report: &FleetReport) {
    let (first, others) = report.groups.split_at(report.groups.len().min(OPEN_GROUPS));
    for (at, of_group) in first.iter().enumerate() {
        group(page, of_group, at == 0);
    }
    if !others.is_empty() {
        page.details(&format!("{} more", counted(others.len(), "group")), |page| {
            for of_group in others {
                group(page, of_group, false);
                if page.is_full() {
                    break;
                }
            }
        });
    }
}

fn group(page: &mut Page, group: &NodeGroup, is_first: bool) {
    let (title, nodes) = (group_words(group, is_first), &group.nodes);
    page.push(&format!("<article>\n<h3>{}: {}</h3>\n", text(&title), text(nodes)));
    if !group.differences.is_empty() {
        let rows = group.differences.iter().map(|difference| {
            [Some(&difference.fact), difference.value.as_ref(), difference.majority.as_ref()]
                .map(|value| text(value.map_or("none", |value| value)))
                .to_vec()
        });
        let count = group.differences.len();
        folded(page, count > OPEN, &counted(count, "difference"), |page| {
            let caption = format!("Differences of {nodes}");
            page.table(&caption, &["fact", "value here", "value of most nodes"], rows);
        });
    }
    page.push("</article>\n");
}

fn facts(page: &mut Page, report: &FleetReport) {
    let rows = report.facts.iter().map(|fact| {
        let others =
            fact.outliers.iter().map(|value| text(&format!("{} on {}", value.value, value.nodes)));
        vec![
            text(&fact.fact),
            text(fact.majority.as_deref().unwrap_or("none")),
            fact.count.to_string(),
            others.collect::<Vec<_>>().join("<br>"),
        ]
    });
    page.table("Majority and outliers", &["fact", "most nodes", "#nodes", "others"], rows);
}

/// Findings with their nodes; many are folded, because the table of actions names the nodes.
fn wrong(page: &mut Page, report: &FleetReport) {
    page.section("What is wrong");
    if report.findings.is_empty() {
        page.paragraph("Nothing failed on a node with a report.");
        return;
    }
    let rows = finding_rows(report);
    let summary = counted(report.findings.len(), "finding");
    folded(page, rows.len() > OPEN, &summary, |page| findings(page, &rows));
    steps(page, report);
}

/// A host list, which may wrap behind a comma.
fn hosts(list: &str) -> String {
    text(list).replace(',', ",<wbr>")
}

/// Content that is folded if it is long.
fn folded(page: &mut Page, is_long: bool, summary: &str, content: impl FnOnce(&mut Page)) {
    if is_long {
        page.details(summary, content);
    } else {
        content(page);
    }
}

fn findings(page: &mut Page, rows: &[FindingRow<'_>]) {
    let findings = rows.iter().map(|row| {
        let finding = row.first;
        let tone = match finding.outcome.as_str() {
            "fail" => Tone::Bad,
            "warn" => Tone::Fair,
            _ => Tone::Dim,
        };
        vec![
            text(&finding.id),
            mark(tone, &finding.outcome),
            text(&row.subjects()),
            text(&finding.message),
            finding.count.to_string(),
            hosts(&finding.nodes),
        ]
    });
    page.table("Findings", &["check", "result", "subject", "finding", "#nodes", "names"], findings);
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
        let count = report.figures.len();
        folded(page, count > OPEN, &counted(count, "figure"), |page| figure_table(page, report));
    }
    links(page, report);
}

fn figure_table(page: &mut Page, report: &FleetReport) {
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

fn links(page: &mut Page, report: &FleetReport) {
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
