//! Details of RDMA devices for doctor: firmware, ports and GID tables.
//!
//! GIDs are private addresses: each is reduced to its scope when read.

use std::path::Path;

use super::interfaces::interfaces;
use super::{CLASS, counters, leads_to, roce};
use crate::collect::read;
use crate::model::{Bdf, Fact, Failure, GidReach, Note, RdmaDevice, RdmaGid, RdmaPort};
use crate::world::{FileError, Files};

/// Tables have 16 to 512 entries and fill from the start, reusing freed ones: reading stops after this many
/// empty ones.
const EMPTY_IN_A_ROW: u32 = 16;
const MOST: u32 = 512;

pub fn details(files: &dyn Files, devices: &mut Fact<Vec<RdmaDevice>>, notes: &mut Vec<Note>) {
    let Fact::Known(devices) = devices else {
        return;
    };
    interfaces(files, devices, notes);
    for device in devices {
        let base = format!("{CLASS}/{}", device.name);
        let mut text = |name: &str| {
            let text = read::text_if_there(files, &format!("{base}/{name}"), notes);
            // rdma_rxe's file is empty.
            text.map(|text| text.filter(|text| !text.is_empty()))
        };
        device.firmware = text("fw_ver");
        device.chip = text("hca_type");
        device.board = text("board_id");
        let (name, place) = (device.name.clone(), device.place.present().copied());
        let is_virtual = device.physical_function.present().is_some();
        let Fact::Known(ports) = &mut device.ports else {
            continue;
        };
        for port in ports {
            let device = &base;
            let base = format!("{device}/ports/{}", port.number);
            port.physical_state =
                read::text(files, &format!("{base}/phys_state"), notes).map(super::word);
            if is_active_ethernet(port) {
                port.gids = gids(files, &base, place);
            }
            // A machine may have thousands of virtual functions; their physical function counts.
            if is_active(port) && !is_virtual {
                port.counters = counters::counters(files, device, &base, notes);
                if is_active_ethernet(port) {
                    port.roce = roce::settings(files, &name, place, port, notes);
                }
            }
        }
    }
}

fn gids(files: &dyn Files, port: &str, place: Option<Bdf>) -> Fact<Vec<RdmaGid>> {
    let (mut found, mut empty) = (Vec::new(), 0);
    for index in 0..MOST {
        let path = format!("{port}/gids/{index}");
        let reach = match files.reduced(Path::new(&path), 64, &kept) {
            Ok(text) => reach(&text),
            // The end of the table; if index 0 is missing, the table is unknown.
            Err(error) if error.is_absent() && index > 0 => break,
            Err(error) => return Fact::Unknown(error.why()),
        };
        match reach {
            Some(reach) => {
                empty = 0;
                found.push(gid(files, port, place, index, reach));
            }
            None => empty += 1,
        }
        if empty == EMPTY_IN_A_ROW {
            break;
        }
    }
    Fact::Known(found)
}

fn gid(files: &dyn Files, port: &str, place: Option<Bdf>, index: u32, reach: GidReach) -> RdmaGid {
    let text = |what: &str| match files.text(Path::new(&format!("{port}/gid_attrs/{what}/{index}")))
    {
        Ok(text) => Fact::Known(Some(text)),
        Err(error) if error.is_absent() || is_none(&error) => Fact::Known(None),
        Err(error) => Fact::Unknown(error.why()),
    };
    let interface = text("ndevs");
    let here = match &interface {
        Fact::Known(Some(name)) => is_here(files, name, place),
        Fact::Known(None) => Fact::Known(false),
        Fact::Unknown(why) => Fact::Unknown(*why),
    };
    let mtu = match (&interface, &here) {
        (Fact::Known(Some(name)), Fact::Known(true)) => mtu(files, name),
        _ => Fact::Known(None),
    };
    RdmaGid {
        index,
        reach,
        kind: match text("types") {
            Fact::Known(Some(kind)) => Fact::Known(kind),
            Fact::Known(None) => Fact::default(),
            Fact::Unknown(why) => Fact::Unknown(why),
        },
        interface,
        here,
        mtu,
    }
}

/// The kernel returns EINVAL if an entry lacks the attribute.
fn is_none(error: &FileError) -> bool {
    const EINVAL: i32 = 22;
    error.failure() == Failure::Errno(EINVAL)
}

/// True if the interface is in this network namespace and belongs to this NIC: names repeat across namespaces.
fn is_here(files: &dyn Files, interface: &str, place: Option<Bdf>) -> Fact<bool> {
    let path = format!("/sys/class/net/{interface}");
    read::is_there(files, &path).map(|there| {
        let other =
            matches!((leads_to(files, &path), place), (Fact::Known(Some(its)), Some(ours)) if !same_nic(its, ours));
        there && !other
    })
}

/// A NIC's functions differ in the function number; virtual ones also in the device number.
fn same_nic(a: Bdf, b: Bdf) -> bool {
    (a.domain, a.bus) == (b.domain, b.bus)
}

fn mtu(files: &dyn Files, interface: &str) -> Fact<Option<u32>> {
    match files.text(Path::new(&format!("/sys/class/net/{interface}/mtu"))) {
        Ok(text) => text.trim().parse().map_or(Fact::default(), |mtu| Fact::Known(Some(mtu))),
        Err(error) => Fact::Unknown(error.why()),
    }
}

/// The shortest address of each scope, which replaces the real one in snapshots.
const WORDS: [(GidReach, &str); 3] = [
    (GidReach::LinkLocal, "fe80::"),
    (GidReach::Ipv4, "::ffff:0.0.0.0"),
    (GidReach::Ipv6, "2001:db8::"),
];

fn kept(gid: Vec<u8>) -> Vec<u8> {
    match reach(&gid) {
        Some(reach) => WORDS
            .iter()
            .find(|(of, _)| *of == reach)
            .map(|(_, word)| word.as_bytes().to_vec())
            .unwrap_or_default(),
        None => b"::".to_vec(),
    }
}

/// The scope of a GID; `None` if it is empty or invalid.
fn reach(gid: &[u8]) -> Option<GidReach> {
    let text = std::str::from_utf8(gid).ok()?.trim();
    let address: std::net::Ipv6Addr = text.parse().ok()?;
    match address.segments() {
        // An interface id of 0 is not an address.
        _ if address.is_unspecified() && !text.contains("ffff") => None,
        [0xfe80..=0xfebf, 0, 0, 0, 0, 0, 0, 0] if text != "fe80::" => None,
        [0xfe80..=0xfebf, ..] => Some(GidReach::LinkLocal),
        [0, 0, 0, 0, 0, 0xffff, ..] => Some(GidReach::Ipv4),
        _ => Some(GidReach::Ipv6),
    }
}

/// True if a port has RoCE.
pub fn has_roce(devices: &Fact<Vec<RdmaDevice>>) -> bool {
    let devices = devices.known().into_iter().flatten();
    let mut ports = devices.filter_map(|device| device.ports.known()).flatten();
    ports.any(is_active_ethernet)
}

fn is_active(port: &RdmaPort) -> bool {
    matches!(&port.state, Fact::Known(state) if state == "ACTIVE")
}

/// Active ports with an Ethernet link have network addresses.
fn is_active_ethernet(port: &RdmaPort) -> bool {
    is_active(port) && matches!(&port.link_layer, Fact::Known(layer) if layer == "Ethernet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gid_is_reduced_to_its_scope() {
        for (gid, expected, word) in [
            ("0000:0000:0000:0000:0000:0000:0000:0000\n", None, "::"),
            ("fe80:0000:0000:0000:0000:0000:0000:0000\n", None, "::"),
            ("fe80:0000:0000:0000:0e42:a1ff:fe55:36a8\n", Some(GidReach::LinkLocal), "fe80::"),
            ("0000:0000:0000:0000:0000:ffff:c0a8:0164\n", Some(GidReach::Ipv4), "::ffff:0.0.0.0"),
            ("2001:0db8:0000:0001:0e42:a1ff:fe55:36a8\n", Some(GidReach::Ipv6), "2001:db8::"),
            ("no address\n", None, "::"),
        ] {
            assert_eq!(reach(gid.as_bytes()), expected, "{gid}");
            let once = kept(gid.as_bytes().to_vec());
            assert_eq!(once, word.as_bytes(), "{gid}");
            assert_eq!(reach(&once), expected, "{gid}");
            assert_eq!(kept(once.clone()), once, "{gid}");
        }
    }
}
