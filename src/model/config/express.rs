//! The PCI Express capability: where in the tree a function sits, and how it moves data.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LinkPair;

/// PCI Express capability (id 0x10, PCIe 7.5.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Express {
    /// Offset of the capability, to name a register in it.
    pub offset: u16,
    /// Version of the structure: 1 (PCIe 1.x) or 2.
    pub version: u8,
    /// What kind of port or device this is.
    pub port: PortType,
    /// The port leads to a slot, not to a soldered device.
    pub slot: bool,
    /// Largest payload the function can take, bytes.
    pub max_payload_supported: u16,
    /// Can use 8-bit tags, 256 requests in flight.
    pub extended_tag_supported: bool,
    /// Largest payload it may send now, bytes.
    pub max_payload: u16,
    /// Largest read it may ask for now, bytes.
    pub max_read_request: u16,
    /// May set the relaxed ordering attribute.
    pub relaxed_ordering: bool,
    /// May use 8-bit tags.
    pub extended_tag: bool,
    /// May set the no-snoop attribute.
    pub no_snoop: bool,
    /// The link. None in a function integrated in the root complex, which has none.
    pub link: Option<LinkPair>,
}

/// Device/Port Type of the PCI Express Capabilities register (PCIe 7.5.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortType {
    /// PCI Express endpoint.
    Endpoint,
    /// Legacy PCI Express endpoint.
    LegacyEndpoint,
    /// Root port of a root complex.
    RootPort,
    /// Upstream port of a switch.
    UpstreamPort,
    /// Downstream port of a switch.
    DownstreamPort,
    /// PCI Express to PCI or PCI-X bridge.
    PcieToPci,
    /// PCI or PCI-X to PCI Express bridge.
    PciToPcie,
    /// Endpoint integrated in the root complex.
    RootComplexEndpoint,
    RootComplexEventCollector,
    /// A value the specification reserves.
    Other(u8),
}

impl PortType {
    /// Inside the root complex, and so without a link.
    pub fn is_integrated(self) -> bool {
        matches!(
            self,
            Self::RootComplexEndpoint | Self::RootComplexEventCollector
        )
    }

    /// A port with a link below it, the kind that redirects peer-to-peer traffic.
    pub fn leads_down(self) -> bool {
        matches!(
            self,
            Self::RootPort | Self::DownstreamPort | Self::PciToPcie
        )
    }
}

impl fmt::Display for PortType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Endpoint => "endpoint",
            Self::LegacyEndpoint => "legacy endpoint",
            Self::RootPort => "root port",
            Self::UpstreamPort => "switch upstream port",
            Self::DownstreamPort => "switch downstream port",
            Self::PcieToPci => "PCIe-to-PCI bridge",
            Self::PciToPcie => "PCI-to-PCIe bridge",
            Self::RootComplexEndpoint => "root complex endpoint",
            Self::RootComplexEventCollector => "root complex event collector",
            Self::Other(code) => return write!(f, "port type {code:#x}"),
        })
    }
}
