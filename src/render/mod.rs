//! Model → bytes: one file a format. Nothing is read here and nothing is judged.

pub mod diff;
pub mod doctor;
pub mod explain;
pub mod json;
pub mod pairs;
pub mod path;
pub mod plan;
pub mod probe;
pub mod smi;
pub mod svg;
pub mod table;
mod text;

pub use crate::output::printable;

use crate::model::{Facts, Ids, Row, Topology};
use crate::topo::Forest;

/// How to print for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// With colour.
    pub color: bool,
    /// Columns of the terminal.
    pub width: usize,
}

/// A topology to draw.
pub struct View<'a> {
    /// The facts under it.
    pub facts: &'a Facts,
    /// The rows and their pairs.
    pub topology: &'a Topology,
    /// The PCI forest.
    pub forest: &'a Forest<'a>,
    /// The name of a device by vendor and device id.
    pub name: &'a dyn Fn(&Ids) -> String,
    /// How to print.
    pub style: Style,
    /// PCI classes where NVLinks would be shown.
    pub pci_only: bool,
}

impl View<'_> {
    /// What stands for the pair of two rows: NV#, else the PCI class, else nothing.
    pub fn cell(&self, a: usize, b: usize) -> Option<String> {
        let pair = self.topology.pair(a, b)?;
        match pair.nvlinks.known() {
            Some(links) if *links > 0 && !self.pci_only => Some(format!("NV{links}")),
            _ => pair.pci.known().map(|class| class.letters().to_owned()),
        }
    }

    /// What a row is: the driver's name for it, the RDMA device's, or what pci.ids says.
    pub fn label(&self, row: &Row) -> String {
        if !row.label.is_empty() {
            return row.label.clone();
        }
        let ids = row
            .bdf
            .and_then(|bdf| self.facts.device(bdf))
            .and_then(|d| d.ids.known());
        ids.map_or_else(String::new, self.name)
    }
}
