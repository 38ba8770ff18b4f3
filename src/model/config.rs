//! The configuration space of one PCI function, as plain values; `pci` decodes them.
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
pub use extended::{Ats, SerialNumber, SrIov};
pub use header::{Bar, BarKind, Class, Command, Header, HeaderKind, Subsystem};
pub use link::{Aspm, Link, LinkPair, LinkSpeed};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Fact;

/// The decoded configuration space of one function.
///
/// `Known(None)` for a capability means that the whole list was read and does not contain it. A capability that was
/// not requested is `Unknown(NotCovered)`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// The first 64 bytes, which any user may read.
    pub header: Fact<Header>,
    /// PCI Express capability. None for a conventional PCI device or an emulated one.
    pub express: Fact<Option<Express>>,
    /// Access Control Services.
    pub acs: Fact<Option<Acs>>,
    /// Address Translation Services.
    pub ats: Fact<Option<Ats>>,
    /// Single Root I/O Virtualization of a physical function.
    pub sriov: Fact<Option<SrIov>>,
    /// Device Serial Number.
    pub serial_number: Fact<Option<SerialNumber>>,
    /// Malformed parts and their places, one sentence each. Empty for a healthy function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure: Vec<String>,
}
