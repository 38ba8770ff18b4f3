//! The network interfaces of a NIC, and whether the default route or the way to network storage leads over one of them. Of the routes
//! only the names of these interfaces are kept.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::CLASS;
use super::storage::{Server, Storage, storage};
use crate::collect::read;
use crate::model::{Fact, Note, RdmaDevice, StorageRoute};
use crate::world::Files;

/// Bonds and bridges above an interface that are followed.
const MASTERS: usize = 3;

/// What a route is for: everything, or a kind of storage.
const DEFAULT: &str = "default";

/// Interfaces, with the reason why each is known.
type Interfaces = BTreeMap<String, String>;

pub fn interfaces(files: &dyn Files, devices: &mut [RdmaDevice], notes: &mut Vec<Note>) {
    let storage = storage(files);
    let routes = routes(files, storage.known().map_or(&[], |storage| &storage.servers));
    let default = routes.as_ref().map(|routes| of_purpose(routes, |purpose| purpose == DEFAULT));
    let of_storage = match (&routes, &storage) {
        (Fact::Known(routes), Fact::Known(Storage { interfaces, .. })) => {
            let mut found = of_purpose(routes, |purpose| purpose != DEFAULT);
            found.extend(interfaces.iter().cloned());
            Fact::Known(found)
        }
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
    };
    for device in devices {
        if device.place.present().is_none() {
            continue;
        }
        let path = format!("{CLASS}/{}/device/net", device.name);
        device.interfaces = read::names(files, &path, notes).map(Option::unwrap_or_default);
        let mut leads = |over_these: &Fact<Interfaces>| match (&device.interfaces, over_these) {
            (Fact::Known(names), Fact::Known(these)) => {
                Fact::Known(names.iter().find_map(|name| over(files, name, these, notes)))
            }
            (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
        };
        device.default_route = leads(&default).map(|found| found.map(|(name, _)| name));
        // A configuration may name the RDMA device itself.
        let named = of_storage.known().and_then(|these| these.get_key_value(&device.name));
        let named = named.map(|(name, kind)| (name.clone(), kind.clone()));
        let of_device = leads(&of_storage);
        device.storage = named
            .map_or(of_device, |named| Fact::Known(Some(named)))
            .map(|found| found.map(|(interface, kind)| StorageRoute { interface, kind }));
    }
}

fn of_purpose(routes: &[(String, String)], is_it: impl Fn(&str) -> bool) -> Interfaces {
    routes.iter().filter(|(_, purpose)| is_it(purpose)).cloned().collect()
}

/// The one of these interfaces that is this one, one of its VLANs, or a bond or bridge above it.
fn over(
    files: &dyn Files,
    name: &str,
    these: &Interfaces,
    notes: &mut Vec<Note>,
) -> Option<(String, String)> {
    let mut name = name.to_owned();
    for _ in 0..=MASTERS {
        let is_its = |(route, _): &(&String, &String)| {
            let vlan = route.strip_prefix(name.as_str());
            vlan.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if let Some((route, why)) = these.iter().find(is_its) {
            return Some((route.clone(), why.clone()));
        }
        let master = format!("/sys/class/net/{name}/master");
        name = read::link_name(files, &master, notes).present()?.clone();
    }
    None
}

/// The interfaces with a default route, and those over which a server of storage is reached, with what each is for.
fn routes(files: &dyn Files, servers: &[Server]) -> Fact<Vec<(String, String)>> {
    // Without them a role of a NIC may be unknown, and nothing else.
    let mut notes = Vec::new();
    let of_v4 = |text: &str| kept(text, servers, (32, v4));
    let of_v6 = |text: &str| kept(text, servers, (128, v6));
    let v4 = read::kept_if_there(files, "/proc/net/route", of_v4, &mut notes);
    let v6 = read::kept_if_there(files, "/proc/net/ipv6_route", of_v6, &mut notes);
    let pairs = |text: &Option<String>| -> Vec<(String, String)> {
        let lines = text.iter().flat_map(|text| text.lines());
        let pair = |line: &str| match line.split_once(' ') {
            Some((name, kind)) => (name.to_owned(), kind.to_owned()),
            None => (line.to_owned(), DEFAULT.to_owned()),
        };
        lines.map(pair).collect()
    };
    match (v4, v6) {
        (Fact::Known(v4), Fact::Known(v6)) => {
            Fact::Known(pairs(&v4).into_iter().chain(pairs(&v6)).collect())
        }
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(why),
    }
}

/// A route of the main table.
struct Route<'t> {
    interface: &'t str,
    network: u128,
    /// Bits of the network.
    length: u32,
    metric: u32,
    /// Without a gateway.
    is_direct: bool,
}

impl Route<'_> {
    fn leads_to(&self, address: u128, bits: u32) -> bool {
        self.length == 0 || (self.network ^ address) >> (bits - self.length) == 0
    }
}

/// What is kept of a table: the interfaces with a default route, and `INTERFACE KIND` for those over which the servers are reached. A
/// line with one or two words was reduced before.
fn kept(
    text: &str,
    servers: &[Server],
    (bits, parse): (u32, fn(&str) -> Option<Route<'_>>),
) -> String {
    let is_reduced = |line: &&str| (1..=2).contains(&line.split_whitespace().count());
    let reduced = text.lines().filter(is_reduced).map(|line| format!("{line}\n"));
    let routes: Vec<Route<'_>> = text.lines().filter_map(parse).collect();
    let default = routes
        .iter()
        .filter(|route| route.length == 0)
        .map(|route| format!("{}\n", route.interface));
    let of_server = servers.iter().filter_map(|server| {
        let number = |address: IpAddr| match address {
            IpAddr::V4(address) if bits == 32 => Some(u128::from(address.to_bits())),
            IpAddr::V6(address) if bits == 128 => Some(address.to_bits()),
            _ => None,
        };
        let address = number(server.address)?;
        // The network of the machine's own address, if one interface alone has it.
        let own = server.own.and_then(number).and_then(|own| {
            let mut direct = routes
                .iter()
                .filter(|route| route.is_direct && route.length > 0 && route.leads_to(own, bits));
            let first = direct.next()?;
            direct.all(|route| route.interface == first.interface).then_some(first)
        });
        let leading = routes.iter().filter(|route| route.leads_to(address, bits));
        // The kernel takes the longest network, then the lowest metric.
        let best = leading.min_by_key(|route| (std::cmp::Reverse(route.length), route.metric));
        Some(format!("{} {}\n", own.or(best)?.interface, server.kind))
    });
    let mut lines: Vec<String> = reduced.chain(default).chain(of_server).collect();
    lines.dedup();
    lines.concat()
}

/// A line of /proc/net/route, whose addresses are in the machine's byte order; without routes that refuse (flag `!`, 0x0200). Flag `G`,
/// 0x0002: over a gateway.
fn v4(line: &str) -> Option<Route<'_>> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [interface, network, _, flags, _, _, metric, mask, ..] = fields.as_slice() else {
        return None;
    };
    let address =
        |text: &str| Some(Ipv4Addr::from(u32::from_str_radix(text, 16).ok()?.to_le_bytes()));
    let (network, mask) = (address(network)?, address(mask)?);
    let flags = u32::from_str_radix(flags, 16).ok()?;
    (flags & 0x0200 == 0).then_some(Route {
        interface,
        network: u128::from(network.to_bits()),
        length: mask.to_bits().leading_ones(),
        metric: metric.parse().ok()?,
        is_direct: flags & 0x0002 == 0,
    })
}

/// A line of /proc/net/ipv6_route; the loopback interface has routes to the machine itself and one that refuses.
fn v6(line: &str) -> Option<Route<'_>> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [network, length, _, _, gateway, metric, _, _, _, interface] = fields.as_slice() else {
        return None;
    };
    (*interface != "lo").then_some(Route {
        interface,
        network: u128::from_str_radix(network, 16).ok().map(Ipv6Addr::from_bits)?.to_bits(),
        length: u32::from_str_radix(length, 16).ok().filter(|length| *length <= 128)?,
        metric: u32::from_str_radix(metric, 16).ok()?,
        is_direct: gateway.bytes().all(|digit| digit == b'0'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<Server> {
        let server = |address: &str, kind: &str| Server {
            address: address.parse().expect("an address"),
            own: None,
            kind: kind.to_owned(),
        };
        vec![
            server("192.168.1.77", "nfs4"),
            server("10.9.8.7", "lustre"),
            server("192.168.1.130", "nvme-rdma"),
            server("fe80::99", "nfs"),
        ]
    }

    #[test]
    fn only_names_of_interfaces_are_kept() {
        // proc(5); net/ipv6/route.c prints destination, length, source, length, next hop, metric, references, use, flags, interface.
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            bond0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth2\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n\
            ib4\t0001A8C0\t00000000\t0001\t0\t0\t50\t00FFFFFF\t0\t0\t0\n\
            ib5\t8001A8C0\t00000000\t0001\t0\t0\t50\t80FFFFFF\t0\t0\t0\n";
        let reduced = "bond0\nib4 nfs4\nbond0 lustre\nib5 nvme-rdma\n";
        assert_eq!(kept(table, &servers(), (32, v4)), reduced);
        assert_eq!(kept(reduced, &[], (32, v4)), reduced);
        assert_eq!(kept(table, &[], (32, v4)), "bond0\n");
        let zero = "0".repeat(32);
        let table = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
             fe800000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth2\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n"
        );
        assert_eq!(kept(&table, &servers(), (128, v6)), "eth0\neth2 nfs\n");
    }
}
