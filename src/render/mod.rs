//! Model to bytes, one module per format. Nothing is read or judged here.

pub mod comparison;
pub mod diff;
pub mod doctor;
pub mod explain;
pub mod fleet;
pub mod history;
pub mod html;
pub mod job;
pub mod json;
pub mod junit;
mod matrix;
pub mod nccl;
pub mod nccl_decisions;
mod nics;
pub mod pairs;
pub mod path;
pub mod plan;
pub mod probe;
pub mod smi;
mod stream;
pub mod svg;
pub mod table;
mod text;

pub use crate::output::printable;
pub use text::{counted, wrap};

use text::Tone;

use std::fmt;

use crate::model::{Fact, Facts, Ids, Kind, PciClass, Row};
use crate::topo::{Forest, Topology};

/// Output options for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    pub width: usize,
}

pub struct View<'a> {
    pub facts: &'a Facts,
    pub topology: &'a Topology<'a>,
    pub forest: &'a Forest<'a>,
    /// Returns the name for a vendor and device id.
    pub name: &'a dyn Fn(&Ids) -> String,
    pub style: Style,
    /// Show PCI classes in place of NVLinks.
    pub pci_only: bool,
    /// Show the pairs without a GPU too.
    pub all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    Same,
    NvLinks(u32),
    Class(PciClass),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("X"),
            Self::NvLinks(links) => write!(f, "NV{links}"),
            Self::Class(class) => f.write_str(class.letters()),
        }
    }
}

impl serde::Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl View<'_> {
    /// The cell of two rows: NV#, else the PCI class.
    pub fn cell(&self, a: usize, b: usize) -> Option<Cell> {
        let pair = self.topology.pair(a, b)?;
        match pair.nvlinks {
            Fact::Known(links) if links > 0 && !self.pci_only => Some(Cell::NvLinks(links)),
            _ => pair.pci.known().map(|class| Cell::Class(*class)),
        }
    }

    /// True if the machine is known to have no RDMA device.
    pub fn has_no_nic(&self) -> bool {
        self.facts.rdma.known().is_some() && self.topology.rows_of(Kind::Nic).next().is_none()
    }

    /// The colour of a cell. A class rates no path in a guest, nor between GPUs whose NVLinks are unknown.
    pub fn tone(&self, a: usize, b: usize) -> Option<Tone> {
        if a == b {
            return None;
        }
        let Some(cell) = self.cell(a, b) else {
            return Some(Tone::Dim);
        };
        let gpus = [a, b].map(|row| self.topology.rows[row].kind == Kind::Gpu) == [true; 2];
        match cell {
            Cell::Same => None,
            Cell::NvLinks(_) => Some(Tone::Special),
            Cell::Class(_) if self.facts.platform.is_guest() => None,
            Cell::Class(PciClass::Node | PciClass::NodeOrSys | PciClass::Sys)
                if gpus && nics::has_unknown_nvlinks(self, a, b) =>
            {
                None
            }
            Cell::Class(class) => Tone::of_cell(class.letters()),
        }
    }

    /// A row's label from the driver, the RDMA device or pci.ids.
    pub fn label(&self, row: &Row) -> String {
        if !row.label.is_empty() {
            return row.label.clone();
        }
        let ids = row.bdf.and_then(|bdf| self.facts.device(bdf)).and_then(|d| d.ids.known());
        ids.map_or_else(String::new, self.name)
    }
}
