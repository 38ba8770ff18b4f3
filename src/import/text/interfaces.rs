//! Network interfaces. The kernel names the PCI function of each (`parentdev`), and systemd's names carry its address
//! (systemd.net-naming-scheme(7)).

use super::nic_tools::{mellanox, vendor_of};
use super::{Kind, Starts};
use crate::import::support::Recording;
use crate::model::{Bdf, Ids};

pub const IP_LINK: Kind = Kind {
    name: "ip link, ip addr, ifconfig",
    starts: Starts::Line,
    begins: |line| interface(line).is_some(),
    yields: "PCI addresses of network controllers, where -d or the names of systemd show them; which of them have InfiniBand",
    example: "4: ibp26s0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044 qdisc mq state UP mode DEFAULT group default qlen 256
    link/infiniband 00:00:10:49:fe:80:00:00:00:00:00:00:01:23:45:67:89:ab:cd:ef brd 00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff
5: enp59s0f1np1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP mode DEFAULT group default qlen 1000
    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff
",
    read: |text, recording| {
        interfaces(text, recording);
        Ok(())
    },
};

/// The name in `4: ibp26s0: <BROADCAST,…>`, `5: eth0@if7: <…>` and `ibp26s0: flags=4163<UP,…>`.
fn interface(line: &str) -> Option<&str> {
    let (first, rest) = line.split_once(": ")?;
    let name = match first.parse::<u32>() {
        Ok(_) => rest.split_once(": <")?.0,
        Err(_) => Some(first).filter(|_| rest.starts_with("flags=") && rest.contains('<'))?,
    };
    let name = name.split('@').next()?;
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

pub const SETTINGS: Kind = Kind {
    name: "ethtool",
    starts: Starts::Output,
    begins: |line| settings(line).is_some(),
    yields: "PCI address of the network controller, where the name shows it; speed and state of its link, as a remark",
    example: "Settings for enp26s0f0np0:
\tSpeed: 200000Mb/s
\tLink detected: yes
",
    read: |text, recording| {
        let Some(name) = text.lines().find_map(|line| settings(line.trim())) else { return Ok(()) };
        let value =
            |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        if let Some(bdf) = of_name(name) {
            recording.controller(bdf, false);
        }
        let speed = value("Speed:").filter(|speed| speed.ends_with("b/s"));
        let words = [
            speed.map(str::to_owned),
            value("Link detected:").map(|state| format!("link detected: {state}")),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        if !words.is_empty() {
            recording.note("ethtool", format!("{name}: {}", words.join(", ")));
        }
        Ok(())
    },
};

/// The name in `Settings for enp26s0f0np0:`.
fn settings(line: &str) -> Option<&str> {
    let name = line.strip_prefix("Settings for ")?.strip_suffix(':')?;
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

pub const DEVLINK: Kind = Kind {
    name: "devlink port, devlink dev info",
    starts: Starts::Line,
    begins: |line| place_of_port(line).is_some() || place_of_device(line).is_some(),
    yields: "network controllers: address, whether they have InfiniBand, vendor by the driver",
    example: "pci/0000:1a:00.0/1: type ib ibdev mlx5_0 flavour physical port 0
pci/0000:1a:00.0:
  driver mlx5_core
",
    read: |text, recording| {
        let mut place = None;
        for line in text.lines().map(str::trim) {
            if let Some((bdf, has_infiniband)) = place_of_port(line) {
                recording.controller(bdf, has_infiniband);
            } else if let Some(bdf) = place_of_device(line) {
                place = Some(bdf);
            } else if let Some((bdf, vendor)) =
                place.zip(line.strip_prefix("driver ").and_then(vendor_of))
            {
                recording.function(bdf, Ids { vendor, ..mellanox(None) });
            }
        }
        Ok(())
    },
};

/// The function of `pci/0000:1a:00.0/1: type eth netdev ens1f0np0 flavour physical`, and whether it has InfiniBand. The ports of a switch or of
/// a virtual function are on its function too.
fn place_of_port(line: &str) -> Option<(Bdf, bool)> {
    let (place, rest) = line.strip_prefix("pci/")?.split_once(": type ")?;
    let (bdf, port) = place.split_once('/')?;
    port.parse::<u32>().ok()?;
    let kind = rest.split(' ').next()?;
    Some((bdf.parse().ok()?, kind == "ib")).filter(|_| kind == "ib" || kind == "eth")
}

/// The function of `pci/0000:1a:00.0:`, above its driver.
fn place_of_device(line: &str) -> Option<Bdf> {
    line.strip_prefix("pci/")?.strip_suffix(':')?.parse().ok()
}

/// An interface of InfiniBand whose PCI address the text does not show.
fn unplaced(name: &str, state: &str, recording: &mut Recording) {
    let state = if state.is_empty() { String::new() } else { format!(", state {state}") };
    recording.note("ip link", format!("{name}: an interface of InfiniBand{state}"));
}

fn interfaces(text: &str, recording: &mut Recording) {
    let mut place: Option<Bdf> = None;
    let mut infiniband = false;
    let (mut current, mut state) = ("", "");
    for line in text.lines().map(str::trim).chain(["0: end: <"]) {
        if let Some(name) = interface(line) {
            if let Some(bdf) = place {
                recording.controller(bdf, infiniband);
            } else if infiniband {
                unplaced(current, state, recording);
            }
            let mut words = line.split_ascii_whitespace().skip_while(|word| *word != "state");
            (current, state) = (name, words.nth(1).unwrap_or_default());
            (place, infiniband) = (of_name(name), name.starts_with("ibp"));
            continue;
        }
        infiniband |= line.starts_with("link/infiniband ");
        let after = |key: &str| {
            let mut words = line.split_ascii_whitespace().skip_while(|word| *word != key);
            words.nth(1)
        };
        if line.contains("parentbus pci ") {
            place = after("parentdev").and_then(|bdf| bdf.parse().ok()).or(place);
        } else if let Some(name) = after("altname").filter(|_| line.starts_with("altname ")) {
            place = place.or_else(|| of_name(name));
        }
    }
}

/// The address in `enp59s0f1np1`: `[P<domain>]p<bus>s<slot>[f<function>]`, in decimal. Names of USB devices and of virtual functions go on
/// otherwise.
fn of_name(name: &str) -> Option<Bdf> {
    let rest = name.strip_prefix("en").or_else(|| name.strip_prefix("ib"))?;
    let (domain, rest) = numbered(rest, 'P').unwrap_or((0, rest));
    let (bus, rest) = numbered(rest, 'p')?;
    let (slot, rest) = numbered(rest, 's')?;
    let (function, rest) = numbered(rest, 'f').unwrap_or((0, rest));
    let is_port = rest.is_empty() || rest.starts_with('d') || rest.starts_with("np");
    format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}").parse().ok().filter(|_| is_port)
}

/// The number behind a letter, and the rest.
fn numbered(text: &str, letter: char) -> Option<(u32, &str)> {
    let rest = text.strip_prefix(letter)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_devlink_prints() {
        let at = |text: &str| text.parse::<Bdf>().expect("an address");
        for (line, expected) in [
            ("pci/0000:1a:00.0/1: type ib ibdev mlx5_0", Some((at("0000:1a:00.0"), true))),
            (
                "pci/0000:1a:00.1/65535: type eth netdev ens1f1np1 flavour physical port 1",
                Some((at("0000:1a:00.1"), false)),
            ),
            ("pci/0000:1a:00.0/1: type notset flavour virtual", None),
            ("auxiliary/mlx5_core.eth.0/1: type eth netdev ens1", None),
        ] {
            assert_eq!(place_of_port(line), expected, "{line}");
        }
        assert_eq!(place_of_device("pci/0000:1a:00.0:"), Some(at("0000:1a:00.0")));
        // Any device may have one.
        assert_eq!(place_of_device("pci/0000:1a:00.0"), None);
    }

    #[test]
    fn addresses_in_names_of_interfaces() {
        for (name, expected) in [
            ("enp59s0f1np1", Some("0000:3b:00.1")),
            ("ibp26s0", Some("0000:1a:00.0")),
            ("enP2p1s0f0", Some("0002:01:00.0")),
            ("enp129s3f5", Some("0000:81:03.5")),
            ("enp9s0", Some("0000:09:00.0")),
            // A slot of the firmware, a virtual function, USB, names of other origin.
            ("ens2f0np0", None),
            ("enP2s2f0np0", None),
            ("ibp75s0v7", None),
            ("enp1s0f4u4", None),
            ("eth0", None),
            ("eno1", None),
        ] {
            let found = of_name(name).map(|bdf| bdf.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        assert_eq!(interface("22: veth-ns@if23: <BROADCAST,UP> mtu 1500"), Some("veth-ns"));
        assert_eq!(interface("ibp26s0: flags=4163<UP,BROADCAST>  mtu 2044"), Some("ibp26s0"));
        assert_eq!(interface("17: words: and <more>"), None);
    }
}
