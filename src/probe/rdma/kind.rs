//! The operations and transports that are tested, and their names.

use serde::{Deserialize, Serialize};
use verbs::Transport;

/// An operation that moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Write,
    /// RDMA write with immediate data.
    WriteImmediate,
    Read,
    Send,
    /// A message with immediate data.
    SendImmediate,
    /// 64-bit atomic addition.
    FetchAdd,
    /// 64-bit atomic compare and swap.
    CompareSwap,
}

impl Kind {
    /// In the names of results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::WriteImmediate => "write-imm",
            Self::Read => "read",
            Self::Send => "send",
            Self::SendImmediate => "send-imm",
            Self::FetchAdd => "fetch-add",
            Self::CompareSwap => "compare-swap",
        }
    }

    /// True for operations on one 64-bit word.
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    /// True if it carries immediate data.
    pub fn has_immediate(self) -> bool {
        matches!(self, Self::WriteImmediate | Self::SendImmediate)
    }

    /// True if the responder must post a receive buffer.
    pub fn is_received(self) -> bool {
        matches!(self, Self::WriteImmediate | Self::Send | Self::SendImmediate)
    }
}

/// In the names of results.
pub fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Rc => "rc",
        Transport::Uc => "uc",
        Transport::Ud => "ud",
        Transport::Srd => "srd",
    }
}

/// Serialization of transports.
pub mod transport {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use verbs::Transport;

    use super::name;

    pub fn serialize<S: Serializer>(transport: &Transport, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(name(*transport))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Transport, D::Error> {
        let text = String::deserialize(from)?;
        [Transport::Rc, Transport::Uc, Transport::Ud, Transport::Srd]
            .into_iter()
            .find(|transport| name(*transport) == text)
            .ok_or_else(|| D::Error::custom(format!("there is no transport '{text}'")))
    }
}
