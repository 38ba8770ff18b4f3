//! RDMA devices from `/sys/class/infiniband`.

mod counters;
mod interfaces;
mod ports;
mod roce;
mod settings;
mod stack;
mod storage;

use std::collections::BTreeMap;
use std::path::Path;

pub use ports::{details, has_roce};
pub use settings::{parse as parse_settings, settings};
pub use stack::stack;

use super::pci::MAX_FUNCTIONS;
use super::read;
use crate::model::Order as _;
use crate::model::{Bdf, Fact, Ids, NodeFile, Note, PciDevice, RdmaDevice, RdmaPort};
use crate::world::Files;

const CLASS: &str = "/sys/class/infiniband";
/// Limit of ports of all devices; representors of virtual functions are ports too.
const MAX_PORTS: usize = 1 << 14;

/// The RDMA devices, in natural order.
pub fn devices(
    files: &dyn Files,
    pci: &Fact<Vec<PciDevice>>,
    gpus: usize,
    notes: &mut Vec<Note>,
) -> Fact<Vec<RdmaDevice>> {
    let mut names = match read::names(files, CLASS, notes) {
        // Without the class the RDMA core is not loaded.
        Fact::Known(names) => names.unwrap_or_default(),
        Fact::Unknown(why) => return Fact::Unknown(why),
    };
    if names.len() > MAX_FUNCTIONS {
        return read::malformed(notes, CLASS, format!("more than {MAX_FUNCTIONS} devices"));
    }
    names.order_by_key(|name| RdmaDevice::natural(name));
    let verbs = verbs(files);
    let mut ports_left = MAX_PORTS;
    let devices = names.into_iter().map(|name| {
        let base = format!("{CLASS}/{name}");
        let parent = parent(files, &base);
        let place = place(files, &base, &parent);
        let ids = place.present().and_then(|bdf| ids(pci, *bdf));
        let management = match (place.present(), ids) {
            (Some(bdf), Some(ids))
                if gpus >= RdmaDevice::GPUS_OF_A_SWITCHED_SYSTEM && ids.vendor == Ids::MELLANOX =>
            {
                is_management(files, *bdf)
            }
            _ => Fact::Known(false),
        };
        RdmaDevice {
            physical_function: match place.present() {
                Some(bdf) if !matches!(parent, Fact::Known(Some(_))) => {
                    read::link_name(files, &format!("/sys/bus/pci/devices/{bdf}/physfn"), notes)
                        .map(|name| name.and_then(|name| name.parse().ok()))
                }
                _ => Fact::Known(None),
            },
            ports: ports(files, &base, &mut ports_left, notes),
            uverbs: verbs.as_ref().map(|verbs| verbs.get(&name).cloned()),
            name,
            place,
            parent,
            management,
            ..RdmaDevice::default()
        }
    });
    Fact::Known(devices.collect())
}

/// The netdev of a software device (rxe, siw).
fn parent(files: &dyn Files, base: &str) -> Fact<Option<String>> {
    match files.text(Path::new(&format!("{base}/parent"))) {
        Ok(name) => Fact::Known(Some(name)),
        Err(error) if error.is_absent() => Fact::Known(None),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// The PCI function of a device or of its netdev.
fn place(files: &dyn Files, base: &str, parent: &Fact<Option<String>>) -> Fact<Option<Bdf>> {
    match parent {
        Fact::Known(Some(netdev)) => leads_to(files, &format!("/sys/class/net/{netdev}")),
        Fact::Known(None) => leads_to(files, base),
        Fact::Unknown(why) => Fact::Unknown(*why),
    }
}

/// The PCI function in a class device's link; `None` if the path has none. A directory in place of the
/// link, left by a copy that follows links, is unknown.
fn leads_to(files: &dyn Files, class_device: &str) -> Fact<Option<Bdf>> {
    let through = |link: &str| match files.read_link(Path::new(link)) {
        Ok(target) => Fact::Known(read::last_bdf(&target)),
        Err(error) if error.is_absent() => Fact::Known(None),
        Err(error) => Fact::Unknown(error.why()),
    };
    match through(class_device) {
        Fact::Known(Some(bdf)) => Fact::Known(Some(bdf)),
        here => match through(&format!("{class_device}/device")) {
            Fact::Known(Some(bdf)) => Fact::Known(Some(bdf)),
            device => here.and_then(|_| device),
        },
    }
}

fn ids(pci: &Fact<Vec<PciDevice>>, bdf: Bdf) -> Option<Ids> {
    let devices = pci.known()?;
    let at = devices.binary_search_by_key(&bdf, |device| device.bdf).ok()?;
    devices.get(at)?.ids.known().copied()
}

/// True if the vital product data mark a switch management function.
fn is_management(files: &dyn Files, bdf: Bdf) -> Fact<bool> {
    // Other fields are part and serial numbers.
    let mark = |vpd: Vec<u8>| {
        if RdmaDevice::is_marked_management(&vpd) {
            RdmaDevice::MANAGEMENT_MARK.to_vec()
        } else {
            Vec::new()
        }
    };
    let path = format!("/sys/bus/pci/devices/{bdf}/vpd");
    match files.reduced(Path::new(&path), 1024, &mark) {
        Ok(mark) => Fact::Known(!mark.is_empty()),
        // Without vital product data it is none.
        Err(error) if error.is_absent() => Fact::Known(false),
        Err(error) => Fact::Unknown(error.why()),
    }
}

fn ports(
    files: &dyn Files,
    base: &str,
    left: &mut usize,
    notes: &mut Vec<Note>,
) -> Fact<Vec<RdmaPort>> {
    let directory = format!("{base}/ports");
    read::names(files, &directory, notes).and_then(|names| {
        match left.checked_sub(names.as_ref().map_or(0, Vec::len)) {
            Some(rest) => *left = rest,
            None => {
                return read::malformed(notes, directory, format!("more than {MAX_PORTS} ports"));
            }
        }
        let mut numbers: Vec<u32> =
            names.unwrap_or_default().iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let mut text = |number: u32, name: &str| {
            read::text(files, &format!("{base}/ports/{number}/{name}"), notes)
        };
        let ports = numbers.into_iter().map(|number| RdmaPort {
            number,
            state: text(number, "state").map(word),
            link_layer: text(number, "link_layer"),
            rate: text(number, "rate"),
            ..RdmaPort::default()
        });
        Fact::Known(ports.collect())
    })
}

/// The word in `4: ACTIVE`.
fn word(text: String) -> String {
    match text.split_once(": ") {
        Some((_, word)) => word.to_owned(),
        None => text,
    }
}

/// The nodes of `/dev/infiniband`, by RDMA device.
fn verbs(files: &dyn Files) -> Fact<BTreeMap<String, NodeFile>> {
    let class = "/sys/class/infiniband_verbs";
    match files.list(Path::new(class)) {
        Ok(names) => {
            let mut nodes = BTreeMap::new();
            for name in names {
                match files.text(Path::new(&format!("{class}/{name}/ibdev"))) {
                    Ok(device) => {
                        let node =
                            || super::driver::node(files, &format!("/dev/infiniband/{name}"));
                        nodes.entry(device).or_insert_with(node);
                    }
                    // Nothing is known of any device's node then.
                    Err(error) if name.starts_with("uverbs") && !error.is_absent() => {
                        return Fact::Unknown(error.why());
                    }
                    Err(_) => {}
                }
            }
            Fact::Known(nodes)
        }
        Err(error) if error.is_absent() => {
            read::absent::<()>(files, class).map(|_| BTreeMap::new())
        }
        Err(error) => Fact::Unknown(error.why()),
    }
}
