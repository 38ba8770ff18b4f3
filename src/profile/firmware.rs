//! The oldest firmware that serves, by device: `profiles/devices.toml`.

use serde::Deserialize;

const DEVICES: &str = include_str!("../../profiles/devices.toml");

/// The oldest firmware of a device that serves.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minimum {
    vendor: u16,
    device: u16,
    /// Its version, as the firmware writes it.
    pub version: String,
    /// What it is, to go into a sentence.
    pub about: String,
    pub source: String,
}

#[derive(Deserialize)]
struct Devices {
    #[serde(rename = "devices")]
    _devices: serde::de::IgnoredAny,
    firmware: Vec<Minimum>,
}

/// The oldest firmware that serves this device, where a source says one.
pub fn minimum_firmware(vendor: u16, device: u16) -> Option<Minimum> {
    // A test holds that the list can be read.
    let all: Devices = toml::from_str(DEVICES).ok()?;
    all.firmware
        .into_iter()
        .find(|minimum| (minimum.vendor, minimum.device) == (vendor, device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_source() {
        let all: Devices = toml::from_str(DEVICES).expect("the list of devices");
        assert!(!all.firmware.is_empty());
        for minimum in all.firmware {
            assert!(minimum.source.starts_with("https://"), "{minimum:?}");
            assert_eq!(minimum.version.split('.').count(), 3, "{minimum:?}");
        }
        assert_eq!(minimum_firmware(0x15b3, 0x1021), None);
    }
}
