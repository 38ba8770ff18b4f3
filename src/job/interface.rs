//! What the addresses in a failed connection say: an address that other nodes do not reach, or two networks.

use std::net::IpAddr;

use crate::model::Quote;

/// Interfaces that are kept.
const MAX_KEPT: usize = 4_096;

/// How the names of interfaces begin whose addresses are valid inside one machine.
const LOCAL: [&str; 8] =
    ["docker", "virbr", "veth", "podman", "lxcbr", "lxdbr", "vboxnet", "ip6tnl"];

/// Digits in the name of the bridge of a network that Docker makes.
const BRIDGE_DIGITS: usize = 12;

#[derive(Debug)]
struct Interface {
    name: String,
    address: IpAddr,
    process: Option<u32>,
    line: Quote,
}

/// The interfaces that NCCL uses, by process.
#[derive(Debug, Default)]
pub struct Interfaces {
    known: Vec<Interface>,
}

impl Interfaces {
    /// `[0]eth0:192.0.2.1<0> [1]veth1:fe80::1%veth1<0>`
    pub fn add(&mut self, list: &str, process: Option<u32>, line: impl Fn() -> Quote) {
        for word in list.split_whitespace() {
            let word = word.split_once(']').map_or(word, |(_, rest)| rest);
            let Some((name, rest)) = word.split_once(':') else { continue };
            let Some(address) = rest.split_once('<').and_then(|(text, _)| address(text)) else {
                continue;
            };
            let is_known = |known: &Interface| {
                known.process == process && known.name == name && known.address == address
            };
            if self.known.len() < MAX_KEPT && !self.known.iter().rev().take(8).any(is_known) {
                let name = name.to_owned();
                self.known.push(Interface { name, address, process, line: line() });
            }
        }
    }

    /// What is wrong with the address of a connection that failed. `is_one_node`: the log shows all ranks, on one node.
    pub fn about(&self, failed: &str, process: Option<u32>, is_one_node: bool) -> Option<String> {
        if is_one_node {
            return None;
        }
        let target = failed.split(is_between).find_map(address);
        let own = self.known.iter().find(|known| process.is_some() && known.process == process);
        if let Some(target) = target {
            let of_target = self.known.iter().find(|known| known.address == target);
            let name = of_target.map(|known| known.name.as_str());
            if let Some(why) = unreachable(target, name) {
                let of = of_target.map_or(String::new(), place);
                return Some(format!("{target}{of} {why}; {} chooses it", variable(failed)));
            }
        }
        let own = own?;
        let why = unreachable(own.address, Some(&own.name));
        let at = place(own);
        if let Some(why) = why {
            let text = format!("its own address {}{at} {why}", own.address);
            return Some(format!("{text}; {} chooses it", variable(failed)));
        }
        let target = target.filter(|target| is_apart(own.address, *target))?;
        // A host that answers is reached.
        (!failed.contains("refused")).then(|| {
            let text = format!("perhaps two networks: its own address is {}{at}", own.address);
            format!("{text}, the other one {target}; {} chooses the interface", variable(failed))
        })
    }
}

/// Characters around an address.
fn is_between(c: char) -> bool {
    c.is_whitespace() || matches!(c, '<' | '>' | '[' | ']' | '(' | ')' | ',' | '=' | '/' | '\'')
}

/// An address without its scope, or with a port.
fn address(word: &str) -> Option<IpAddr> {
    let word = word.split_once('%').map_or(word, |(address, _)| address);
    let parsed: Option<IpAddr> = word.parse().ok();
    let parsed = parsed.or_else(|| word.rsplit_once(':')?.0.parse().ok())?;
    Some(parsed.to_canonical())
}

fn place(interface: &Interface) -> String {
    format!(" (interface {}, {})", interface.name, interface.line.place())
}

/// Why other nodes do not reach an address.
fn unreachable(address: IpAddr, name: Option<&str>) -> Option<&'static str> {
    let octets = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => [0; 4],
    };
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if address.is_loopback() {
        return Some("is a loopback address, which no other node reaches");
    }
    if name.is_some_and(is_local) {
        return Some("is of an interface inside one machine, which no other node reaches");
    }
    match octets {
        _ if is_link_local => Some("is a link-local address, which is valid on one link alone"),
        [172, 17, 0, _] if name.is_none_or(|name| name == "eth0") => Some(
            "is perhaps in the default network of Docker's bridge, which no other node reaches",
        ),
        [192, 168, 122, _] if name.is_none() => {
            Some("is perhaps in the default network of libvirt, which no other node reaches")
        }
        _ => None,
    }
}

fn is_local(name: &str) -> bool {
    let is_digits = |rest: &str| {
        rest.len() == BRIDGE_DIGITS && rest.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    LOCAL.iter().any(|start| name.starts_with(start))
        || name.strip_prefix("br-").is_some_and(is_digits)
}

/// Two addresses that are probably not of one network.
fn is_apart(own: IpAddr, other: IpAddr) -> bool {
    match (own, other) {
        (IpAddr::V4(own), IpAddr::V4(other)) => own.octets()[..2] != other.octets()[..2],
        (own, other) => own.is_ipv4() != other.is_ipv4(),
    }
}

/// The setting that chooses the address.
fn variable(failed: &str) -> &'static str {
    if failed.contains("dest_addr=") {
        "UCX_NET_DEVICES"
    } else if failed.contains("gloo") || failed.contains("Gloo") {
        "GLOO_SOCKET_IFNAME"
    } else if failed.contains("c10d") || failed.contains("client socket") {
        "MASTER_ADDR"
    } else {
        "NCCL_SOCKET_IFNAME"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces() -> Interfaces {
        let mut known = Interfaces::default();
        let quote = |number| move || Quote { number, text: String::new(), file: None };
        known.add("[0]eno1:10.1.0.11<0> [1]veth25f:fe80::1%veth25f<0>", Some(0), quote(1));
        known.add("docker0:172.17.0.1<0>", Some(1), quote(2));
        known.add("br-0123456789ab:172.20.0.1<0>", Some(2), quote(3));
        known.add("br-ex:172.20.0.9<0>", Some(3), quote(4));
        known
    }

    #[test]
    fn addresses_that_no_other_node_reaches() {
        let known = interfaces();
        for (text, process, expected) in [
            ("Connect to 127.0.0.1<49152> failed", None, Some("127.0.0.1 is a loopback address")),
            ("connect [127.0.1.1]:59463: refused", None, Some("127.0.1.1 is a loopback address")),
            ("connect to 169.254.3.1<45113> returned", None, Some("169.254.3.1 is a link-local")),
            (
                "Connect to fe80::1%8<46577> failed",
                None,
                Some("fe80::1 (interface veth25f, line 1)"),
            ),
            (
                "connect(fd=4, dest_addr=172.17.0.1:4) failed",
                None,
                Some("172.17.0.1 (interface docker0"),
            ),
            (
                "Connect to 172.17.0.2<38847> failed",
                None,
                Some("172.17.0.2 is perhaps in the default"),
            ),
            (
                "Connect to 172.20.0.1<1> failed",
                None,
                Some("172.20.0.1 (interface br-0123456789ab"),
            ),
            ("Connect to 172.20.0.9<1> failed", None, None),
            ("Connect to 10.1.0.12<1> failed : timed out", Some(0), None),
            ("Connect to 10.2.0.12<1> failed : timed out", Some(0), Some("perhaps two networks")),
            ("Connect to 10.2.0.12<1> failed : refused", Some(0), None),
            (
                "Connect to 10.1.0.12<1> failed : timed out",
                Some(1),
                Some("its own address 172.17.0.1"),
            ),
            ("Connection refused", Some(0), None),
        ] {
            let about = known.about(text, process, false);
            match expected {
                Some(start) => {
                    assert!(about.is_some_and(|about| about.starts_with(start)), "{text}")
                }
                None => assert_eq!(about, None, "{text}"),
            }
            assert_eq!(known.about(text, process, true), None, "{text}");
        }
    }
}
