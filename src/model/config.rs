//! What the configuration space of one PCI function says. Plain values; `pci` decodes them.
//!
//! The layouts are those of the PCI Express Base Specification ("PCIe"), chapter 7, and of the PCI Local Bus
//! Specification 3.0 for the header. Sizes are bytes, offsets are bytes from the start of the space.

mod acs;
mod express;
mod extended;
mod header;
mod link;

pub use acs::{Acs, AcsBits};
pub use express::{Express, PortType};
pub use extended::{
    Aer, Ats, CorrectableErrors, ResizableBar, SerialNumber, SrIov, UncorrectableErrors,
};
pub use header::{Bar, BarKind, Class, Command, Header, HeaderKind, Status, Subsystem};
pub use link::{Aspm, Link, LinkPair, LinkSpeed};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// The decoded configuration space of one function.
///
/// `Known(None)` of a capability means that its whole list was read and does not hold it. What was not asked for
/// is `Unknown(NotCovered)`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// The first 64 bytes, which anybody may read.
    pub header: Fact<Header>,
    /// PCI Express capability. None: a conventional PCI device, or an emulated one.
    pub express: Fact<Option<Express>>,
    /// Access Control Services.
    pub acs: Fact<Option<Acs>>,
    /// Address Translation Services.
    pub ats: Fact<Option<Ats>>,
    /// Advanced Error Reporting.
    pub aer: Fact<Option<Aer>>,
    /// Resizable BAR, one entry for each BAR that can be resized. An empty list is not the same as no capability.
    pub resizable_bar: Fact<Option<Vec<ResizableBar>>>,
    /// Single Root I/O Virtualization of a physical function.
    pub sriov: Fact<Option<SrIov>>,
    /// Device Serial Number.
    pub serial_number: Fact<Option<SerialNumber>>,
    /// Offsets of the null entries (id 0) in the extended list.
    ///
    /// A hypervisor unlinks or blanks what it keeps from its guest and leaves such an entry: in a guest, an
    /// absent capability beside one of these says nothing about the hardware.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub null_entries: Vec<u16>,
    /// What was malformed and where, one sentence each. Empty for a healthy function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure: Vec<String>,
}
