//! Text and size of the card (box) of a device, with one section per function that has a row.

use std::collections::BTreeMap;

use crate::model::{Facts, Ids, Kind, Row};
use crate::topo::Topology;

use super::nets::Net;
use super::scene::{Ink, Look};
use super::text::Type;
use super::tree::short;

/// Space left of the text, including the coloured edge.
pub const LEFT: i32 = 16;
const RIGHT: i32 = 10;
const TOP: i32 = 7;
const MIN_TEXT: i32 = 110;
const MAX_TEXT: i32 = 190;
/// Distance between the wires that leave a card with several sections on its right.
pub const PIN: i32 = 9;

pub struct Card {
    pub look: Look,
    pub sections: Vec<Section>,
    pub w: i32,
    pub h: i32,
}

/// One row of a card.
pub struct Section {
    pub row: usize,
    pub lines: Vec<(String, Type, Ink)>,
    pub h: i32,
}

pub fn line_height(style: Type) -> i32 {
    style.size + 5
}

/// Creates cards from rows.
pub struct Cards<'a> {
    pub facts: &'a Facts,
    pub topology: &'a Topology<'a>,
    pub names: &'a dyn Fn(&Ids) -> String,
    /// Number of nets of each row.
    degrees: BTreeMap<usize, usize>,
    /// Common text width of all cards.
    text: i32,
}

impl<'a> Cards<'a> {
    pub fn new(
        facts: &'a Facts,
        topology: &'a Topology<'a>,
        names: &'a dyn Fn(&Ids) -> String,
        nets: &[Net],
    ) -> Self {
        let mut degrees = BTreeMap::new();
        for row in nets.iter().flat_map(|net| &net.rows) {
            *degrees.entry(*row).or_default() += 1;
        }
        let mut cards = Self { facts, topology, names, degrees, text: MIN_TEXT };
        let sections = (0..topology.rows.len()).map(|at| cards.section(at));
        let widest =
            sections.flat_map(|section| section.lines).map(|(text, style, _)| style.width(&text));
        cards.text = widest.fold(MIN_TEXT, i32::max);
        cards
    }

    /// The card of a device with these rows.
    pub fn card(&self, rows: &[usize]) -> Card {
        let sections: Vec<Section> = rows.iter().map(|at| self.section(*at)).collect();
        let kinds = |kind| rows.iter().any(|at| self.topology.rows[*at].kind == kind);
        Card {
            look: if kinds(Kind::Gpu) {
                Look::Gpu
            } else if kinds(Kind::Nic) {
                Look::Nic
            } else {
                Look::Nvme
            },
            w: self.width(rows),
            h: sections.iter().map(|section| section.h).sum(),
            sections,
        }
    }

    /// Width of that card.
    pub fn width(&self, rows: &[usize]) -> i32 {
        let pins = match rows.len() {
            0 | 1 => 0,
            _ => rows.iter().filter_map(|at| self.degrees.get(at)).sum(),
        };
        // A card with several functions has its wires on the right.
        let margin = i32::try_from(pins).unwrap_or(0) * PIN;
        LEFT + self.text + RIGHT + margin
    }

    /// Number of wires of a row.
    pub fn wires(&self, row: usize) -> usize {
        self.degrees.get(&row).copied().unwrap_or(0)
    }

    fn section(&self, at: usize) -> Section {
        let row = &self.topology.rows[at];
        // Its physical function, which has the model, is drawn too.
        let is_brief =
            row.virtual_function.is_some_and(|function| function.physical_function.is_some());
        let title = match row.kind {
            Kind::Gpu => row.name.clone(),
            Kind::Nic | Kind::Nvme => format!("{} {}", row.name, row.label),
        };
        let small = Type::plain(11);
        let mut lines = vec![(title, Type::bold(if is_brief { 12 } else { 14 }), Ink::Text)];
        let model = self.model(row);
        if !is_brief && !model.is_empty() {
            lines.push((model, small, Ink::Text));
        }
        let place = match row.bdf {
            Some(bdf) => bdf.to_string(),
            None if row.software => "no PCI function".to_owned(),
            None => "unknown PCI function".to_owned(),
        };
        let place = match row.virtual_function {
            Some(_) => format!("{place}, virtual function"),
            None => place,
        };
        lines.push((place, small, Ink::Grey));
        if row.software {
            lines.push(("software device".to_owned(), small, Ink::Grey));
        }
        if row.active == Some(false) {
            lines.push(("no active port".to_owned(), small, Ink::Bad));
        }
        if row.coherent {
            let text = match row.memory_node {
                Some(node) => format!("C2C, memory: node {node}"),
                None => "NVLink-C2C".to_owned(),
            };
            lines.push((text, small, Ink::Good));
        }
        let lines: Vec<_> = lines
            .into_iter()
            .map(|(text, style, ink)| (style.fit(&text, MAX_TEXT), style, ink))
            .collect();
        Section {
            row: at,
            h: 2 * TOP + lines.iter().map(|(_, style, _)| line_height(*style)).sum::<i32>(),
            lines,
        }
    }

    /// The model for a GPU, the system name for a NIC or controller.
    fn model(&self, row: &Row) -> String {
        if row.kind == Kind::Gpu && !row.label.is_empty() {
            return row.label.trim_start_matches("NVIDIA ").to_owned();
        }
        let device = row.bdf.and_then(|bdf| self.facts.device(bdf));
        match device.and_then(|device| device.ids.known()) {
            Some(ids) => short((self.names)(ids)),
            None => String::new(),
        }
    }
}

/// Baseline of the first line of a section that starts at y.
pub fn first_baseline(y: i32, style: Type) -> i32 {
    y + TOP + style.size
}
