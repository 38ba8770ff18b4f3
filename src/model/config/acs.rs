//! Access Control Services: how a port handles traffic between its neighbours.

use std::fmt;
use std::ops::{BitAnd, BitOr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Fact;

/// Access Control Services (extended id 0x0d, PCIe 7.7.11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acs {
    /// Offset of the capability.
    pub offset: u16,
    /// Supported services (capability register, without the vector size in its upper byte).
    pub capable: AcsBits,
    /// Enabled services (control register, as read).
    pub control: AcsBits,
    /// Number of bits in the egress control vector; 0 without egress control.
    pub egress_size: u16,
    /// Egress control vector: bit n % 32 of word n / 32 is for port (or function) n. lspci does not print it.
    pub egress_vector: Fact<Vec<u32>>,
}

impl Acs {
    /// Offset of the control register: that of the capability plus 6.
    pub fn control_offset(&self) -> u16 {
        self.offset + 6
    }

    /// True if egress control stops requests to `port`: the service is on and the bit of the vector is set.
    ///
    /// With request redirect also on, such a request goes up to the root complex; without it, it is blocked (PCIe
    /// 6.12.3). `port` is the number of the other port (or of the other function of the same device).
    pub fn egress_blocks(&self, port: u8) -> Fact<bool> {
        if !self.control.egress_control() {
            return Fact::Known(false);
        }
        self.egress_vector.as_ref().map(|vector| {
            let word = vector.get(usize::from(port / 32)).copied().unwrap_or(0);
            u16::from(port) < self.egress_size && word & 1 << (port % 32) != 0
        })
    }
}

/// Service bits, in the shared layout of the capability and control registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AcsBits(pub u16);

impl AcsBits {
    pub const REQUEST_REDIRECT: Self = Self(1 << 2);
    pub const COMPLETION_REDIRECT: Self = Self(1 << 3);
    pub const EGRESS_CONTROL: Self = Self(1 << 5);
    /// Request and completion redirect. They are cleared together: completions follow their requests.
    pub const REDIRECT: Self = Self(Self::REQUEST_REDIRECT.0 | Self::COMPLETION_REDIRECT.0);

    /// R: redirects peer-to-peer requests to the root complex.
    pub fn request_redirect(self) -> bool {
        self.has(2)
    }

    /// E: checks the target of a peer-to-peer request in the egress control vector.
    pub fn egress_control(self) -> bool {
        self.has(5)
    }

    /// T: routes requests with an already translated address directly, despite R.
    pub fn direct_translated(self) -> bool {
        self.has(6)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits without those of `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The names of the set bits, as lspci writes them.
    pub fn names(self) -> Vec<&'static str> {
        let set = NAMES.iter().filter(|(_, bit)| self.0 & 1 << bit != 0);
        set.map(|(name, _)| *name).collect()
    }

    fn has(self, bit: u16) -> bool {
        self.0 & 1 << bit != 0
    }
}

impl BitOr for AcsBits {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for AcsBits {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

const NAMES: [(&str, u32); 7] = [
    ("SrcValid", 0),
    ("TransBlk", 1),
    ("ReqRedir", 2),
    ("CmpltRedir", 3),
    ("UpstreamFwd", 4),
    ("EgressCtrl", 5),
    ("DirectTrans", 6),
];

impl fmt::Display for AcsBits {
    /// As lspci writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::extended::write_flags(f, &NAMES, self.0.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egress_blocks_with_service_size_and_bit() {
        let mut acs = Acs {
            offset: 0x148,
            capable: AcsBits(0x7f),
            control: AcsBits(0x20),
            egress_size: 40,
            egress_vector: Fact::Known(vec![0b10, 0x8000_0081]),
        };
        let blocked: Vec<u8> =
            (0..=255).filter(|port| acs.egress_blocks(*port) == Fact::Known(true)).collect();
        assert_eq!(blocked, [1, 32, 39], "port 63 lies beyond the vector");
        acs.control = AcsBits(0x5f);
        acs.egress_vector = Fact::default();
        assert_eq!(acs.egress_blocks(1), Fact::Known(false), "egress control is off");
        acs.control = AcsBits(0x20);
        assert_eq!(acs.egress_blocks(1), Fact::default(), "not read");
        assert_eq!(acs.control_offset(), 0x14e);
    }

    #[test]
    fn formats_flags_as_lspci() {
        assert_eq!(
            AcsBits(0x1d).to_string(),
            "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
        );
    }
}
