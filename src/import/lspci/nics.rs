//! Likely RDMA devices. A PCI dump does not name them; a wrong guess adds a topology row, so unlikely ones
//! are left out.

use crate::model::{Fact, Ids, PciDevice};
use crate::pci::{PartKind, PciNames};

/// Network drivers with RDMA support in `*_ib`, `*_re` or `irdma`.
const DRIVERS: [&str; 10] =
    ["bnxt_en", "cxgb4", "efa", "erdma", "hfi1", "ice", "ionic", "mana", "mlx5_core", "qede"];

pub(super) fn looks_like_one(device: &PciDevice, names: &PciNames) -> bool {
    let Some(ids) = device.ids.known() else {
        return false;
    };
    // InfiniBand and Omni-Path fabric controllers.
    if matches!(ids.class_and_subclass(), 0x0207 | 0x0208) {
        return true;
    }
    if ids.base_class() != 0x02 {
        return false;
    }
    let part = ids.device.and_then(|device| names.part(ids.vendor, device));
    match ids.vendor {
        Ids::MELLANOX => part.is_none_or(|part| part.kind != PartKind::DataDirect),
        _ if ids.is_efa() => true,
        _ => driver(device).is_some_and(|driver| DRIVERS.contains(&driver)),
    }
}

fn driver(device: &PciDevice) -> Option<&str> {
    match device.attributes.as_ref().map(|attributes| &attributes.driver) {
        Some(Fact::Known(Some(driver))) => Some(driver),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Attributes, Config};

    fn looks(vendor: u16, device: Option<u16>, class: u32, driver: Option<&str>) -> bool {
        let names = PciNames::new(None, include_str!("../../../profiles/devices.toml"))
            .expect("the list of parts");
        let device = PciDevice {
            bdf: "01:00.0".parse().expect("an address"),
            place: Fact::default(),
            ids: Fact::Known(Ids { vendor, device, class }),
            numa_node: Fact::default(),
            config: Config::default(),
            attributes: driver.map(|driver| {
                Box::new(Attributes {
                    driver: Fact::Known(Some(driver.to_owned())),
                    ..Attributes::default()
                })
            }),
        };
        looks_like_one(&device, &names)
    }

    #[test]
    fn distinguishes_rdma_devices_from_other_nics() {
        for (vendor, device, class, driver, expected) in [
            (0x15b3, Some(0x1021), 0x020700, None, true),
            (0x15b3, None, 0x020000, None, true),
            (0x1077, None, 0x020700, None, true),
            (0x8086, Some(0x24f0), 0x020800, None, true),
            (0x1d0f, Some(0xefa2), 0x020000, None, true),
            (0x1d0f, Some(0xefa4), 0x020000, None, true),
            (0x14e4, Some(0x1750), 0x020000, Some("bnxt_en"), true),
            // Amazon's plain network adapter, a Broadcom with another driver, one without known driver.
            (0x1d0f, Some(0xec20), 0x020000, Some("ena"), false),
            (0x14e4, Some(0x165f), 0x020000, Some("tg3"), false),
            (0x14e4, Some(0x1750), 0x020000, None, false),
            // Mellanox bridges and management functions, a GPU.
            (0x15b3, Some(0x1979), 0x060400, Some("pcieport"), false),
            (0x15b3, Some(0xc2d2), 0x080100, None, false),
            (0x10de, Some(0x2330), 0x030200, Some("nvidia"), false),
        ] {
            assert_eq!(
                looks(vendor, device, class, driver),
                expected,
                "{vendor:04x}:{device:04x?} {class:06x}"
            );
        }
    }
}
