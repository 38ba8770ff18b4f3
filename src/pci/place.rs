//! A function's place, from its path in sysfs: `…/pciDDDD:BB/BRIDGE/…/BDF`.

use std::path::Path;

use crate::model::{Bdf, PciPath, RootBus};

/// Parses the place. Anything before the last root bus (a platform device, a VMBUS channel) is not PCI. `None` if the path
/// is not this function's, or has more than [`PciPath::MAX_BRIDGES`] bridges.
pub fn parse_place(target: &Path, bdf: Bdf) -> Option<PciPath> {
    let mut bridges = Vec::new();
    let mut parts = target.iter().rev().map(|part| part.to_str());
    if parts.next()??.parse() != Ok(bdf) {
        return None;
    }
    for part in parts {
        let part = part?;
        if let Some(root) = part.strip_prefix("pci").and_then(parse_root) {
            bridges.reverse();
            return Some(PciPath { root, rooted: true, bridges });
        }
        if bridges.len() == PciPath::MAX_BRIDGES {
            return None;
        }
        bridges.push(part.parse().ok()?);
    }
    None
}

fn parse_root(text: &str) -> Option<RootBus> {
    let (domain, bus) = text.split_once(':')?;
    Some(RootBus {
        domain: u32::from_str_radix(domain, 16).ok()?,
        bus: u8::from_str_radix(bus, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_kinds_of_paths() {
        let bdf = "0001:02:00.0".parse().expect("an address");
        let bridge: Bdf = "0001:01:00.0".parse().expect("an address");
        for (path, bridges) in [
            ("../../../devices/pci0001:00/0001:02:00.0", vec![]),
            (
                "../../../devices/platform/NVDA:00/pci0001:00/0001:01:00.0/0001:02:00.0",
                vec![bridge],
            ),
            ("../../../devices/pci0000:00/0000:00:01.0/10000:e0/pci0001:00/0001:02:00.0", vec![]),
        ] {
            let root = RootBus { domain: 1, bus: 0 };
            assert_eq!(
                parse_place(Path::new(path), bdf),
                Some(PciPath { root, rooted: true, bridges }),
                "{path}"
            );
        }
        for path in [
            "",
            "../pci0001:00/0001:02:00.1",
            "/etc/passwd",
            "../pci0001:00/virtio0/0001:02:00.0",
            "0001:02:00.0",
        ] {
            assert_eq!(parse_place(Path::new(path), bdf), None, "{path}");
        }
    }
}
