//! Minimum firmware versions by device, from `profiles/devices.toml`.

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

/// The minimum firmware of this device, if known.
pub fn minimum_firmware(vendor: u16, device: u16) -> Option<Minimum> {
    // A test checks that the list is valid.
    let all: Devices = toml::from_str(DEVICES).ok()?;
    all.firmware
        .into_iter()
        .find(|minimum| (minimum.vendor, minimum.device) == (vendor, device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_minimum_has_a_source() {
        let all: Devices = toml::from_str(DEVICES).expect("the list of devices");
        assert!(!all.firmware.is_empty());
        for minimum in all.firmware {
            assert!(minimum.source.starts_with("https://"), "{minimum:?}");
            assert_eq!(minimum.version.split('.').count(), 3, "{minimum:?}");
        }
        assert_eq!(minimum_firmware(0x15b3, 0x1021), None);
    }
}
