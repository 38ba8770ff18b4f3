//! Access Control Services: what a port may do to traffic between its neighbours.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::Fact;

/// Access Control Services (extended id 0x0d, PCIe 7.7.11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acs {
    /// Offset of the capability.
    pub offset: u16,
    /// What the port can do (capability register, without the vector size in its upper byte).
    pub capable: AcsBits,
    /// What is switched on (control register, as read).
    pub control: AcsBits,
    /// Bits in the egress control vector; 0 where egress control is not supported.
    pub egress_size: u16,
    /// The egress control vector, bit n of word n / 32 for port (or function) n. lspci does not print it.
    pub egress_vector: Fact<Vec<u32>>,
}

impl Acs {
    /// Where the control register is, for a message or a write: the capability's offset plus 6.
    pub fn control_offset(&self) -> u16 {
        self.offset + 6
    }

    /// Whether egress control keeps requests from `port`: the service is on and the vector's bit is set.
    ///
    /// With request redirect also on, such a request goes up to the root complex; without it, it is blocked
    /// (PCIe 6.12.3). The number is that of the other port (or of the other function of the same device).
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

/// The services, in the layout that the capability and the control register share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct AcsBits(pub u16);

impl AcsBits {
    /// V: checks that a request's bus number lies below the port. It redirects nothing.
    pub fn source_validation(self) -> bool {
        self.has(0)
    }

    /// B: blocks requests that carry an already translated address.
    pub fn translation_blocking(self) -> bool {
        self.has(1)
    }

    /// R: sends peer-to-peer requests up to the root complex.
    pub fn request_redirect(self) -> bool {
        self.has(2)
    }

    /// C: sends peer-to-peer completions up, those with relaxed ordering clear.
    pub fn completion_redirect(self) -> bool {
        self.has(3)
    }

    /// U: sends up what came from below and is addressed back below.
    pub fn upstream_forwarding(self) -> bool {
        self.has(4)
    }

    /// E: looks a peer-to-peer request's target up in the egress control vector.
    pub fn egress_control(self) -> bool {
        self.has(5)
    }

    /// T: lets requests with an already translated address go straight, despite R.
    pub fn direct_translated(self) -> bool {
        self.has(6)
    }

    fn has(self, bit: u16) -> bool {
        self.0 & 1 << bit != 0
    }
}

impl fmt::Display for AcsBits {
    /// As lspci writes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(&str, u32); 7] = [
            ("SrcValid", 0),
            ("TransBlk", 1),
            ("ReqRedir", 2),
            ("CmpltRedir", 3),
            ("UpstreamFwd", 4),
            ("EgressCtrl", 5),
            ("DirectTrans", 6),
        ];
        super::extended::write_flags(f, &NAMES, self.0.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn egress_needs_the_service_the_size_and_the_bit() {
        let mut acs = Acs {
            offset: 0x148,
            capable: AcsBits(0x7f),
            control: AcsBits(0x20),
            egress_size: 40,
            egress_vector: Fact::Known(vec![0b10, 0x8000_0081]),
        };
        let blocked: Vec<u8> = (0..=255)
            .filter(|port| acs.egress_blocks(*port) == Fact::Known(true))
            .collect();
        assert_eq!(blocked, [1, 32, 39], "port 63 lies beyond the vector");
        acs.control = AcsBits(0x5f);
        acs.egress_vector = Fact::default();
        assert_eq!(
            acs.egress_blocks(1),
            Fact::Known(false),
            "egress control is off"
        );
        acs.control = AcsBits(0x20);
        assert_eq!(acs.egress_blocks(1), Fact::default(), "who knows?");
        assert_eq!(acs.control_offset(), 0x14e);
    }

    #[test]
    fn flags_read_as_lspci_writes_them() {
        assert_eq!(
            AcsBits(0x1d).to_string(),
            "SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
        );
    }
}
