//! Caching of RM mappings: RM chooses it and does not report it.

use std::path::Path;

use crate::mapping::MappingType;

/// Module options of the loaded driver (`NVreg_*`, and registry keys in `RegistryDwords`).
const PARAMETERS: &str = "/proc/driver/nvidia/params";
/// Registry key that makes mappings uncached; NVIDIA's GPUDirect Storage guide recommends it for
/// PCI P2PDMA.
const KEY: &str = "RmForceDisableIomapWC";

/// Expected caching. On `x86_64` memory is write-combined unless the key is set. On aarch64,
/// drivers before 590 map Device memory whatever they call it, later ones Normal non-cacheable
/// memory, which combines stores.
pub(crate) fn expected(release: &str) -> MappingType {
    let parameters = std::fs::read_to_string(Path::new(PARAMETERS)).unwrap_or_default();
    decide(&parameters, release, cfg!(target_arch = "aarch64"))
}

fn decide(parameters: &str, release: &str, arm: bool) -> MappingType {
    let early = major(release).is_none_or(|major| major < 590);
    if disabled(parameters) || (arm && early) {
        MappingType::Device
    } else {
        MappingType::WriteCombining
    }
}

/// Major number of a release such as `580.159.04`.
pub(crate) fn major(release: &str) -> Option<u32> {
    release.split('.').next()?.parse().ok()
}

/// True if the key has a value other than zero: `RegistryDwords: "Key=1;Other=0x2"`.
fn disabled(parameters: &str) -> bool {
    let entries = parameters.lines().filter_map(|line| line.strip_prefix("RegistryDwords:"));
    entries.flat_map(|text| text.trim().trim_matches('"').split(';')).any(|entry| {
        entry.split_once('=').is_some_and(|(key, value)| {
            let value = value.trim();
            key.trim().eq_ignore_ascii_case(KEY)
                && !value.trim_start_matches("0x").trim_start_matches('0').is_empty()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_makes_mappings_uncached() {
        let text = |words: &str| {
            format!("ResmanDebugLevel: 4294967295\nRegistryDwords: \"{words}\"\nRmMsg: \"\"\n")
        };
        let type_of = |words| decide(&text(words), "580.159.04", false);
        assert_eq!(type_of(""), MappingType::WriteCombining);
        assert_eq!(type_of("RmForceDisableIomapWC=1"), MappingType::Device);
        assert_eq!(
            type_of("RMForceStaticBar1=1;RmForceDisableIomapWC=0x1;PeerMappingOverride=1"),
            MappingType::Device
        );
        assert_eq!(type_of("RmForceDisableIomapWC=0"), MappingType::WriteCombining);
        assert_eq!(decide("", "", false), MappingType::WriteCombining);
    }

    #[test]
    fn arm_combines_from_590() {
        assert_eq!(decide("", "580.159.04", true), MappingType::Device);
        assert_eq!(decide("", "590.48.01", true), MappingType::WriteCombining);
        assert_eq!(decide("", "", true), MappingType::Device);
    }
}
