//! The network interfaces of a NIC, and whether the default route leads over one of them. Of the routes only the names of these interfaces
//! are kept.

use std::collections::BTreeSet;

use super::CLASS;
use crate::collect::read;
use crate::model::{Fact, Note, RdmaDevice};
use crate::world::Files;

/// Bonds and bridges above an interface that are followed.
const MASTERS: usize = 3;

pub fn interfaces(files: &dyn Files, devices: &mut [RdmaDevice], notes: &mut Vec<Note>) {
    let routes = default_routes(files);
    for device in devices {
        if device.place.present().is_none() {
            continue;
        }
        let path = format!("{CLASS}/{}/device/net", device.name);
        device.interfaces = read::names(files, &path, notes).map(Option::unwrap_or_default);
        device.default_route = match (&device.interfaces, &routes) {
            (Fact::Known(names), Fact::Known(routes)) => {
                Fact::Known(names.iter().find_map(|name| over(files, name, routes, notes)))
            }
            (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
        };
    }
}

/// The interface with a default route: this one, one of its VLANs, or a bond or bridge above it.
fn over(
    files: &dyn Files,
    name: &str,
    routes: &BTreeSet<String>,
    notes: &mut Vec<Note>,
) -> Option<String> {
    let mut name = name.to_owned();
    for _ in 0..=MASTERS {
        let is_its = |route: &&String| {
            let vlan = route.strip_prefix(name.as_str());
            vlan.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if let Some(route) = routes.iter().find(is_its) {
            return Some(route.clone());
        }
        let master = format!("/sys/class/net/{name}/master");
        name = read::link_name(files, &master, notes).present()?.clone();
    }
    None
}

/// The interfaces with a default route of IPv4 or IPv6.
fn default_routes(files: &dyn Files) -> Fact<BTreeSet<String>> {
    // Without them a role of a NIC may be unknown, and nothing else.
    let mut notes = Vec::new();
    let v4 = read::kept_if_there(files, "/proc/net/route", of_v4, &mut notes);
    let v6 = read::kept_if_there(files, "/proc/net/ipv6_route", of_v6, &mut notes);
    let names = |text: &Option<String>| {
        text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
    };
    match (v4, v6) {
        (Fact::Known(v4), Fact::Known(v6)) => {
            let (mut all, v6): (BTreeSet<String>, BTreeSet<String>) = (names(&v4), names(&v6));
            all.extend(v6);
            Fact::Known(all)
        }
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(why),
    }
}

/// Of each line the interface, if its destination is 0.0.0.0/0. A line with one word was reduced before.
fn of_v4(text: &str) -> String {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [name] => Some(format!("{name}\n")),
            [name, "00000000", _, _, _, _, _, "00000000", ..] => Some(format!("{name}\n")),
            _ => None,
        }
    };
    text.lines().filter_map(line).collect()
}

/// Of each line the interface, if its destination is ::/0; the loopback interface has such a line that rejects.
fn of_v6(text: &str) -> String {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields.as_slice() {
            [name] => Some(format!("{name}\n")),
            [to, "00", .., name] if to.bytes().all(|byte| byte == b'0') && *name != "lo" => {
                Some(format!("{name}\n"))
            }
            _ => None,
        }
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_default_routes_are_kept() {
        // proc(5); net/ipv6/route.c prints destination, length, source, length, next hop, metric, references, use, flags, interface.
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            bond0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth2\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert_eq!(of_v4(v4), "bond0\n");
        assert_eq!(of_v4("bond0\n"), "bond0\n");
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
             fe800000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth2\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n"
        );
        assert_eq!(of_v6(&v6), "eth0\n");
    }
}
