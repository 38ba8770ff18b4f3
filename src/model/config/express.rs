//! The PCI Express capability: port type, link and transfer settings.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LinkPair;

/// PCI Express capability (id 0x10, PCIe 7.5.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Express {
    /// Offset of the capability.
    pub offset: u16,
    /// What kind of port or device this is.
    pub port: PortType,
    /// Maximum payload that it may send, bytes.
    pub max_payload: u16,
    /// Maximum size of a read request, bytes.
    pub max_read_request: u16,
    /// May set the relaxed ordering attribute.
    pub relaxed_ordering: bool,
    /// May use 8-bit tags.
    pub extended_tag: bool,
    /// May set the no-snoop attribute.
    pub no_snoop: bool,
    /// The link. None for a function integrated in the root complex.
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
    /// A reserved value.
    Other(u8),
}

impl PortType {
    /// Inside the root complex, without a link.
    pub fn is_integrated(self) -> bool {
        matches!(self, Self::RootComplexEndpoint | Self::RootComplexEventCollector)
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
