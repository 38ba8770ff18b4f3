//! RDMA devices and their ports: the commands that list them, as files of `/sys/class/infiniband`.

use super::{Kind, Starts};
use crate::import::find;
use crate::import::support::{Class, devinfo_class};
use crate::model::Bdf;

pub const IBSTATUS: Kind = Kind {
    name: "ibstatus",
    starts: Starts::Line,
    begins: |line| line.starts_with("Infiniband device '") && line.ends_with(" status:"),
    yields: "RDMA devices; state, rate and link layer of their ports",
    example: "Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:0000:0000:0000:0001
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 400 Gb/sec (4X NDR)
\tlink_layer:\t InfiniBand
",
    read: |text, recording| recording.class(ibstatus(text)),
};

pub const IBV_DEVINFO: Kind = Kind {
    name: "ibv_devinfo",
    starts: Starts::Line,
    begins: |line| line.starts_with("hca_id:"),
    yields: "RDMA devices; firmware, board; state and link layer of their ports",
    example: "hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.39.1002
\tboard_id:\t\t\tMT_0000000838
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tlink_layer:\t\tInfiniBand
",
    read: |text, recording| recording.class(devinfo_class(text)),
};

pub const IBSTAT: Kind = Kind {
    name: "ibstat",
    starts: Starts::Line,
    begins: |line| line.starts_with("CA '") && line.ends_with('\''),
    yields: "RDMA devices; chip, firmware; state, rate and link layer of their ports",
    example: "CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.39.1002
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tLink layer: InfiniBand
",
    read: |text, recording| recording.class(ibstat(text)),
};

pub const RDMA_LINK: Kind = Kind {
    name: "rdma link",
    starts: Starts::Line,
    begins: |line| {
        port_of(line).is_some_and(|(_, port)| port.parse::<u32>().is_ok())
            && line.contains(" state ")
            && line.contains(" physical_state ")
    },
    yields: "RDMA devices; state of their ports",
    example: "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1f0np0
",
    read: |text, recording| recording.class(rdma_link(text)),
};

pub const IBDEV2NETDEV: Kind = Kind {
    name: "ibdev2netdev",
    starts: Starts::Line,
    begins: |line| find::has(line, " port ") && line.contains(" ==> "),
    yields: "RDMA devices; with -v their PCI addresses and firmware",
    example: "mlx5_0 port 1 ==> ens1f0np0 (Up)
0000:19:00.0 mlx5_1 (MT4129 - MCX75310AAS-NEAT) NVIDIA ConnectX-7 fw 28.39.1002 port 1 (ACTIVE) ==> ib0 (Up)
",
    read: |text, recording| recording.class(ibdev2netdev(text)),
};

pub const SHOW_GIDS: Kind = Kind {
    name: "show_gids",
    starts: Starts::Output,
    begins: |line| {
        line.starts_with("DEV")
            && line.split_ascii_whitespace().take(4).eq(["DEV", "PORT", "INDEX", "GID"])
    },
    yields: "RDMA devices",
    example: "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4\t\tVER\tDEV
---\t----\t-----\t---\t\t\t\t\t------------\t---\t---
mlx5_0\t1\t0\tfe80:0000:0000:0000:0000:0000:0000:0001\t\tv1\tens1f0np0
",
    read: |text, recording| recording.class(show_gids(text)),
};

const STATES: [(&str, &str); 5] = [
    ("DOWN", "1: DOWN"),
    ("INIT", "2: INIT"),
    ("ARMED", "3: ARMED"),
    ("ACTIVE", "4: ACTIVE"),
    ("ACTIVE_DEFER", "5: ACTIVE_DEFER"),
];

const PHYSICAL: [(&str, &str); 7] = [
    ("SLEEP", "1: Sleep"),
    ("POLLING", "2: Polling"),
    ("DISABLED", "3: Disabled"),
    ("PORTCONFIGURATIONTRAINING", "4: PortConfigurationTraining"),
    ("LINKUP", "5: LinkUp"),
    ("LINKERRORRECOVERY", "6: LinkErrorRecovery"),
    ("PHYTEST", "7: Phy Test"),
];

/// The kernel's text for a state, from a program's.
fn state(word: &str) -> Option<&'static str> {
    // ibstat prints `Initializing`.
    let word = word.to_ascii_uppercase().replace("INITIALIZING", "INIT");
    STATES.iter().find(|(name, _)| *name == word).map(|(_, text)| *text)
}

fn physical_state(word: &str) -> Option<&'static str> {
    let word: String = word.chars().filter(char::is_ascii_alphanumeric).collect();
    let word = word.to_ascii_uppercase();
    PHYSICAL.iter().find(|(name, _)| *name == word).map(|(_, text)| *text)
}

fn ibstat(text: &str) -> Class {
    let mut class = Class::default();
    let (mut device, mut port) = (None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("CA '").and_then(|name| name.strip_suffix('\'')) {
            device = class.device(name);
            port = None;
            continue;
        }
        let Some((device, (key, value))) = device.as_ref().zip(line.split_once(':')) else {
            continue;
        };
        let value = value.trim();
        match (key, &port) {
            (key, _) if key.starts_with("Port ") && value.is_empty() => {
                port = class.port(device, &key["Port ".len()..]);
            }
            ("CA type", None) => class.add(device, "hca_type", value),
            ("Firmware version", None) => class.add(device, "fw_ver", value),
            ("State", Some(port)) => class.add_some(port, "state", state(value)),
            ("Physical state", Some(port)) => {
                class.add_some(port, "phys_state", physical_state(value))
            }
            ("Rate", Some(port)) if value.parse::<f64>().is_ok() => {
                class.add(port, "rate", &format!("{value} Gb/sec"))
            }
            ("Link layer", Some(port)) => class.add(port, "link_layer", value),
            _ => {}
        }
    }
    class
}

fn ibstatus(text: &str) -> Class {
    let mut class = Class::default();
    let mut port = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("Infiniband device '") {
            port = rest.split_once("' port ").and_then(|(name, rest)| {
                let device = class.device(name)?;
                class.port(&device, rest.strip_suffix(" status:")?)
            });
            continue;
        }
        let Some((port, (key, value))) = port.as_ref().zip(line.split_once(':')) else {
            continue;
        };
        let value = value.trim();
        match key.trim() {
            "state" => class.add(port, "state", value),
            "phys state" => class.add(port, "phys_state", value),
            "rate" => class.add(port, "rate", value),
            "link_layer" => class.add(port, "link_layer", value),
            _ => {}
        }
    }
    class
}

/// The device and the port in `link mlx5_0/1 state …`; older versions of iproute2 print `1/1: mlx5_0/1: state …`.
fn port_of(line: &str) -> Option<(&str, &str)> {
    let mut words = line.strip_prefix("link ").unwrap_or(line).split_ascii_whitespace();
    let first = words.next()?;
    let word = if first.ends_with(':') { words.next()?.trim_end_matches(':') } else { first };
    word.split_once('/')
}

fn rdma_link(text: &str) -> Class {
    let mut class = Class::default();
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some((name, number)) = port_of(line) else { continue };
        let after = |key: &str| {
            let at = words.iter().position(|word| *word == key)?;
            words.get(at + 1).copied()
        };
        let Some(word) = after("state") else { continue };
        let Some(port) = class.device(name).and_then(|device| class.port(&device, number)) else {
            continue;
        };
        class.add_some(&port, "state", state(word));
        class.add_some(&port, "phys_state", after("physical_state").and_then(physical_state));
    }
    class
}

fn ibdev2netdev(text: &str) -> Class {
    let mut class = Class::default();
    for line in text.lines().filter(|line| line.contains(" ==> ")) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let address = words.first().and_then(|word| word.parse::<Bdf>().ok());
        let name = words.get(usize::from(address.is_some()));
        let after = |key: &str| {
            let at = words.iter().position(|word| *word == key)?;
            words.get(at + 1).copied()
        };
        let Some(device) = name.and_then(|name| class.device(name)) else {
            continue;
        };
        let Some(port) = after("port").and_then(|number| class.port(&device, number)) else {
            continue;
        };
        let of_port =
            words.iter().find_map(|word| state(word.strip_prefix('(')?.strip_suffix(')')?));
        class.add_some(&port, "state", of_port.filter(|_| address.is_some()));
        class.add_some(&device, "fw_ver", after("fw").filter(|version| version.contains('.')));
        if let Some(address) = address {
            class.links.push((device, address));
        }
    }
    class
}

fn show_gids(text: &str) -> Class {
    let mut class = Class::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let [name, port, index, gid, ..] = words.as_slice()
            && index.parse::<u32>().is_ok()
            && gid.contains(':')
            && let Some(device) = class.device(name)
        {
            class.port(&device, port);
        }
    }
    class
}
