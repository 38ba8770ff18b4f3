//! The report of a fleet for people.

use std::fmt::Write as _;

use comfy_table::{ContentArrangement, Table, presets};

use super::{SIMULATED, group_words, headline, rows, used};
use crate::model::{
    FleetFigure, FleetFinding, FleetLink, FleetReport, FleetTopology, Form, HeatMap, NodeAction,
    Outcome,
};
use crate::render::Style;
use crate::render::text::{Tone, printable, wrap};

/// Most lines of each section; the JSON has more.
const MAX_GROUPS: usize = 20;
const MAX_DIFFERENCES: usize = 8;
const MAX_FINDINGS: usize = 20;
const MAX_FIGURES: usize = 10;
/// Most rows of a heat map in a terminal.
const MAX_ROWS: usize = 32;
/// A host list of more bytes is wrapped.
const LONGEST_NODES: usize = 24;

/// Formats the report.
pub fn table(report: &FleetReport, style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    page.head(report);
    page.actions(report);
    if let Some(topology) = &report.topology {
        page.topology(topology);
    }
    page.findings(report);
    page.groups(report);
    page.figures(&report.figures);
    page.links(&report.links);
    if let Some(heat) = &report.heat {
        page.heat(heat);
    }
    for note in &report.notes {
        page.line(Tone::Dim, "", note);
    }
    page.text
}

struct Page {
    text: String,
    style: Style,
}

impl Page {
    /// A word in colour, and a text that is wrapped below itself.
    fn line(&mut self, tone: Tone, word: &str, text: &str) {
        let indent = if word.is_empty() { 0 } else { 10 };
        let hang = " ".repeat(indent.max(2));
        let text = wrap(&printable(text), self.style.width, indent, &hang);
        let gap = " ".repeat(indent.saturating_sub(word.len()));
        let word = self.style.paint(tone, word);
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{word}{gap}{text}");
    }

    fn heading(&mut self, text: &str) {
        let text = wrap(&printable(text), self.style.width, 0, "  ");
        let _ = writeln!(self.text, "\n{}", self.style.paint(Tone::Strong, &text));
    }

    fn below(&mut self, text: &str) {
        let text = wrap(&printable(text), self.style.width, 2, "      ");
        let _ = writeln!(self.text, "  {text}");
    }

    fn more(&mut self, count: usize, what: &str) {
        if count > 0 {
            self.below(&format!("and {count} more {what}: --format json has them"));
        }
    }

    fn head(&mut self, report: &FleetReport) {
        if report.simulated {
            self.line(Tone::Fair, "", SIMULATED);
        }
        let (tone, words) = headline(report);
        let words = wrap(&printable(&words), self.style.width, 0, "  ");
        let _ = writeln!(self.text, "{}", self.style.paint(tone, &words));
        if report.versions.len() > 1 {
            let versions = report
                .versions
                .iter()
                .map(|version| format!("{} on {}", version.value, version.nodes));
            let versions: Vec<String> = versions.collect();
            self.line(
                Tone::Fair,
                "",
                &format!("different versions of gdr: {}", versions.join("; ")),
            );
        }
    }

    /// The nodes that need an action: all of them, because each is one.
    fn actions(&mut self, report: &FleetReport) {
        let columns = NodeAction::COLUMNS;
        let rows = rows(&report.actions, &columns);
        if rows.is_empty() {
            return;
        }
        self.text.push('\n');
        let mut table = self.grid();
        let mut shown = used(&rows);
        shown.retain(|at| !columns[*at].is_long);
        table.set_header(shown.iter().map(|at| columns[*at].heading.to_uppercase()));
        for row in &rows {
            let cell = |at: &usize| {
                let text = &row.cells[*at];
                match columns[*at].form {
                    // A long host list wraps behind a comma.
                    Form::Hosts if text.len() > LONGEST_NODES => {
                        printable(&text.replace(',', ", "))
                    }
                    _ => printable(text),
                }
            };
            table.add_row(shown.iter().map(cell));
        }
        self.print(&table);
    }

    /// The topology that most nodes share, once.
    fn topology(&mut self, topology: &FleetTopology) {
        self.heading("the topology of most nodes");
        let mut table = self.grid();
        let names = topology.devices.iter().map(|device| printable(&device.name));
        table.set_header([String::new()].into_iter().chain(names));
        for row in &topology.matrix {
            let classes =
                row.classes.iter().map(|class| printable(class.as_deref().unwrap_or("?")));
            table.add_row([printable(&row.from)].into_iter().chain(classes));
        }
        // A matrix is read in one piece: a terminal may wrap its lines.
        table.set_content_arrangement(ContentArrangement::Disabled);
        self.print(&table);
        for device in &topology.devices {
            self.below(&format!("{}: {}", device.name, device.description));
        }
    }

    fn grid(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.style.width).unwrap_or(u16::MAX));
        table
    }

    fn print(&mut self, table: &Table) {
        for line in table.lines() {
            // The style has a space at the left.
            self.text.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
            self.text.push('\n');
        }
    }

    fn findings(&mut self, report: &FleetReport) {
        let rows = rows(&report.findings, &FleetFinding::COLUMNS);
        if !rows.is_empty() {
            self.text.push('\n');
        }
        for row in rows.iter().take(MAX_FINDINGS) {
            let state = row.first.state();
            let word = match state {
                Outcome::Fail => "FAIL",
                Outcome::Warn => "WARN",
                _ => "UNKNOWN",
            };
            self.line(super::tone(state), word, &FleetFinding::sentence(&row.cells));
        }
        self.more(rows.len().saturating_sub(MAX_FINDINGS), "findings");
    }

    fn groups(&mut self, report: &FleetReport) {
        for (at, group) in report.groups.iter().enumerate().take(MAX_GROUPS) {
            self.heading(&format!("{}: {}", group_words(group, at == 0), group.nodes));
            for difference in group.differences.iter().take(MAX_DIFFERENCES) {
                let value = difference.value.as_deref().unwrap_or("none");
                let majority = difference.majority.as_deref().unwrap_or("none");
                self.below(&format!("{}: {value}; most: {majority}", difference.fact));
            }
            let listed = group.differences.len().min(MAX_DIFFERENCES);
            self.more(group.differences.len() + group.more - listed, "differences");
        }
        let more = report.groups.len().saturating_sub(MAX_GROUPS);
        self.more(more, "groups");
    }

    fn figures(&mut self, figures: &[FleetFigure]) {
        if figures.is_empty() {
            return;
        }
        self.heading("figures that are worse than on the other nodes");
        let few = &figures[..figures.len().min(MAX_FIGURES)];
        for row in rows(few, &FleetFigure::COLUMNS) {
            self.below(&row.first.sentence(&row.cells));
        }
        self.more(figures.len().saturating_sub(MAX_FIGURES), "figures");
    }

    fn links(&mut self, links: &[FleetLink]) {
        if links.is_empty() {
            return;
        }
        self.heading("slowest links, compared with the median of their kind");
        for row in rows(links, &FleetLink::COLUMNS) {
            self.below(&FleetLink::sentence(&row.cells));
        }
    }

    /// One character a pair: tenths of the usual bandwidth.
    fn heat(&mut self, heat: &HeatMap) {
        if heat.names.len() > MAX_ROWS {
            self.heading(&format!(
                "{} devices: --format html draws the heat map of their links",
                heat.names.len()
            ));
            return;
        }
        self.heading("links from (row) to (column) in tenths of the usual bandwidth; = is usual, . not measured");
        let width = heat.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        for (name, row) in heat.names.iter().zip(&heat.cells) {
            let cells: String =
                row.iter().map(|cell| self.style.paint(tone(*cell), &symbol(*cell))).collect();
            let _ = writeln!(self.text, "  {:width$} {cells}", printable(name));
        }
    }
}

fn symbol(share: Option<f64>) -> String {
    match share {
        None => ".".to_owned(),
        Some(share) if share >= 0.95 => "=".to_owned(),
        Some(share) => ((share * 10.0).clamp(0.0, 9.0) as u8).to_string(),
    }
}

fn tone(share: Option<f64>) -> Tone {
    match share {
        None => Tone::Dim,
        Some(share) if share >= 0.9 => Tone::Good,
        Some(share) if share >= 0.7 => Tone::Fair,
        Some(_) => Tone::Bad,
    }
}
