//! Speed, width and state of a PCI Express link.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Link of a port or device: supported and negotiated values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkPair {
    /// From Link Capabilities.
    pub max: Link,
    /// From Link Status.
    pub current: Link,
    /// Target Link Speed of Link Control 2: the upper limit that software set. None in version 1 of the capability,
    /// and if it is zero, as in functions that support 2.5 GT/s only (PCIe 7.5.3.19).
    pub target: Option<LinkSpeed>,
    /// Enabled power saving states.
    pub aspm_enabled: Aspm,
    /// Port number; the ACS egress vector of a switch uses it.
    pub port_number: u8,
}

/// Speed and width of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Transfer rate of one lane.
    pub speed: LinkSpeed,
    /// Lanes; 0 when the link is down.
    pub width: u8,
}

impl Link {
    /// True if the link is up.
    pub fn is_up(self) -> bool {
        self.width != 0
    }

    /// Usable bytes per second in one direction, before packet headers. 0 when down; None for an unknown speed.
    pub fn bytes_per_second(self) -> Option<u64> {
        self.speed.bytes_per_second(self.width)
    }
}

impl fmt::Display for Link {
    /// As lspci writes it: `32GT/s x16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x{}", self.speed, self.width)
    }
}

/// Transfer rate of a lane, as the registers encode it: the PCI Express generation, 1 to 7. Other values are reserved;
/// 0 is common where there is no link.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct LinkSpeed(pub u8);

impl LinkSpeed {
    /// Transfers a second on one lane. None for a reserved code.
    pub fn transfers_per_second(self) -> Option<u64> {
        // PCIe 7.5.3.6 and 7.5.3.18, Supported Link Speeds Vector.
        Some(match self.0 {
            1 => 2_500_000_000,
            2 => 5_000_000_000,
            3 => 8_000_000_000,
            4 => 16_000_000_000,
            5 => 32_000_000_000,
            6 => 64_000_000_000,
            7 => 128_000_000_000,
            _ => return None,
        })
    }

    /// The same in GT/s: 2.5, 5, 8, 16, 32, 64, 128.
    pub fn gigatransfers(self) -> Option<f64> {
        self.transfers_per_second().map(|rate| rate as f64 / 1e9)
    }

    /// Usable bytes per second in one direction over `width` lanes, after the encoding of the line and before
    /// packet headers. None for a reserved code.
    ///
    /// 8b/10b up to 5 GT/s (PCIe 4.2.1), 128b/130b up to 32 GT/s (PCIe 4.2.2). From 64 GT/s on links run flit mode
    /// (PCIe 6.0, 4.2.3): of a flit's 256 bytes, 8 are CRC and 6 forward error correction, which leaves 242 for
    /// transaction and data link layer, the two that the other encodings also leave.
    pub fn bytes_per_second(self, width: u8) -> Option<u64> {
        let rate = self.transfers_per_second()?;
        let (good, all) = match self.0 {
            1 | 2 => (8, 10),
            3..=5 => (128, 130),
            _ => (242, 256),
        };
        // At most 128e9 * 255 * 242, far below 2^64.
        Some(rate * u64::from(width) * good / (all * 8))
    }
}

impl fmt::Display for LinkSpeed {
    /// As lspci writes it: `32GT/s`, `unknown`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gigatransfers() {
            Some(rate) => write!(f, "{rate}GT/s"),
            None => f.write_str("unknown"),
        }
    }
}

/// Active State Power Management: the states a link may enter by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Aspm {
    /// L0s, standby of one direction.
    pub l0s: bool,
    /// L1, both directions.
    pub l1: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_follows_the_encoding() {
        // By hand: 2.5e9 * 8/10 / 8, 8e9 * 16 * 128/130 / 8, 32e9 * 16 * 128/130 / 8, 64e9 * 16 * 242/256 / 8.
        let cases = [
            (1, 1, Some(250_000_000)),
            (2, 8, Some(4_000_000_000)),
            (3, 16, Some(15_753_846_153)),
            (5, 16, Some(63_015_384_615)),
            (6, 16, Some(121_000_000_000)),
            (5, 0, Some(0)),
            (0, 16, None),
            (15, 16, None),
        ];
        for (code, width, want) in cases {
            assert_eq!(LinkSpeed(code).bytes_per_second(width), want, "code {code} x{width}");
        }
        assert!(LinkSpeed(7).bytes_per_second(255).is_some());
    }

    #[test]
    fn speeds_read_as_lspci_writes_them() {
        let text: Vec<_> = (0..=7).map(|code| LinkSpeed(code).to_string()).collect();
        let want =
            ["unknown", "2.5GT/s", "5GT/s", "8GT/s", "16GT/s", "32GT/s", "64GT/s", "128GT/s"];
        assert_eq!(text, want);
    }
}
