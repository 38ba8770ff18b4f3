//! Minimum firmware versions by device, from `profiles/devices.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

const DEVICES: &str = include_str!("../../profiles/devices.toml");

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minimum {
    vendor: u16,
    device: u16,
    /// In the firmware's notation.
    pub version: String,
    /// Its description, for a sentence.
    pub about: String,
    pub source: String,
}

#[derive(Deserialize)]
struct Devices {
    #[serde(rename = "devices")]
    _devices: serde::de::IgnoredAny,
    firmware: Vec<Minimum>,
}

/// All of them. A test checks that the list is valid.
static MINIMA: LazyLock<Vec<Minimum>> = LazyLock::new(|| {
    toml::from_str(DEVICES).map_or_else(|_| Vec::new(), |devices: Devices| devices.firmware)
});

/// The minimum firmware of this device, if known.
pub fn minimum_firmware(vendor: u16, device: u16) -> Option<&'static Minimum> {
    MINIMA.iter().find(|minimum| (minimum.vendor, minimum.device) == (vendor, device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_minimum_has_a_source() {
        assert!(!MINIMA.is_empty());
        for minimum in &*MINIMA {
            assert!(minimum.source.starts_with("https://"), "{minimum:?}");
            assert_eq!(minimum.version.split('.').count(), 3, "{minimum:?}");
        }
        assert_eq!(minimum_firmware(0x15b3, 0x1021), None);
    }
}
