//! The report of a fleet as a page.

use super::comparison::comparison;
use super::heat::heat_map;
use super::made;
use super::page::{Page, mark, text};
use crate::model::{
    Column, FleetFigure, FleetFinding, FleetLink, FleetReport, FleetTopology, Form, NodeAction,
    NodeGroup,
};
use crate::render::fleet::{Row, SIMULATED, group_words, headline, rows, tone, used};
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
    let rows = rows(&report.actions, &NodeAction::COLUMNS);
    if rows.is_empty() {
        page.paragraph("No node needs an action.");
        return;
    }
    // The first cell of a row is its heading.
    let mut order = used(&rows);
    order.sort_by_key(|at| !matches!(NodeAction::COLUMNS[*at].form, Form::Hosts));
    table(page, "Nodes and what to do about them", &NodeAction::COLUMNS, order, &rows);
}

/// A table of these columns.
fn table<R, const N: usize>(
    page: &mut Page,
    caption: &str,
    columns: &[Column<R>; N],
    order: impl IntoIterator<Item = usize>,
    rows: &[Row<'_, R, N>],
) {
    let order: Vec<usize> = order.into_iter().take(N).collect();
    let headings = order.iter().map(|at| match &columns[*at] {
        Column { form: Form::Number, heading, .. } => format!("#{heading}"),
        column => column.heading.to_owned(),
    });
    let headings: Vec<String> = headings.collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let cell = |row: &Row<'_, R, N>, at: &usize| {
        let words = &row.cells[*at];
        match columns[*at].form {
            Form::Text | Form::Number => text(words),
            Form::State(outcome) => mark(tone(outcome(row.first)), words),
            Form::Hosts => hosts(words),
            Form::Flag => if words.is_empty() { "" } else { "yes" }.to_owned(),
            // A long address may wrap.
            Form::Address => {
                let address = text(words).replace('/', "/<wbr>");
                format!("<span class=\"source\">{address}</span>")
            }
        }
    };
    let rows = rows.iter().map(|row| order.iter().map(|at| cell(row, at)).collect());
    page.table(caption, &headings, rows);
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
    let rows = rows(&report.findings, &FleetFinding::COLUMNS);
    let summary = counted(report.findings.len(), "finding");
    folded(page, rows.len() > OPEN, &summary, |page| {
        table(page, "Findings", &FleetFinding::COLUMNS, 0.., &rows);
    });
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
        folded(page, count > OPEN, &counted(count, "figure"), |page| {
            let rows = rows(&report.figures, &FleetFigure::COLUMNS);
            let caption = "Figures that are worse than the median of all nodes";
            table(page, caption, &FleetFigure::COLUMNS, 0.., &rows);
        });
    }
    if let Some(heat) = &report.heat {
        page.section("Links");
        page.drawing("Heat map of the links", &heat_map(heat));
        let rows = rows(&report.links, &FleetLink::COLUMNS);
        table(page, "The slowest links", &FleetLink::COLUMNS, 0.., &rows);
    }
}
