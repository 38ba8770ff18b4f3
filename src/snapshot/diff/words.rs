//! Names of facts, readable values, and which facts do not describe how a machine works.

use serde_json::Value;

use crate::model::{AcsBits, Link, Why};

/// A readable form of the value at this path.
pub fn value(path: &[String], value: &Value) -> Option<String> {
    let last = path.last().map(String::as_str).unwrap_or_default();
    let above = path.iter().rev().nth(1).map(String::as_str).unwrap_or_default();
    let number = value.as_u64();
    match (above, last) {
        ("acs", "control" | "capable") => {
            let bits = number.and_then(|bits| u16::try_from(bits).ok())?;
            Some(AcsBits(bits).to_string())
        }
        (_, "ids") => ids(known(value)),
        (_, "place") => place(known(value)),
        ("process", "memlock_soft" | "memlock_hard") => Some(match known(value) {
            Value::Null => "unlimited".to_owned(),
            limit => bytes(limit.as_u64()?),
        }),
        ("process", "capabilities") => Some(format!("{:016x}", known(value).as_u64()?)),
        ("bar1", "total" | "used") | ("host", "memory") => Some(bytes(number?)),
        (_, "memory_total" | "size") => known(value).as_u64().map(bytes),
        ("state", "mode") => number.map(|mode| format!("{mode:o}")),
        (_, "container_marks") => known(value).as_array().map(|marks| without_inodes(marks)),
        (
            _,
            "command" | "status" | "flags" | "start" | "address" | "vendor" | "device" | "class",
        ) => number.map(|bits| format!("{bits:#x}")),
        (_, "target") => number.and_then(|code| u8::try_from(code).ok()).map(|code| {
            let speed = crate::model::LinkSpeed(code);
            speed.to_string()
        }),
        _ => link(value),
    }
}

/// The value of a known fact, or any other value.
fn known(value: &Value) -> &Value {
    value.get("known").unwrap_or(value)
}

fn ids(value: &Value) -> Option<String> {
    let ids: crate::model::Ids = serde_json::from_value(value.clone()).ok()?;
    Some(ids.to_string())
}

/// The root bus and the bridges, as in a sysfs path.
fn place(value: &Value) -> Option<String> {
    let place: crate::model::PciPath = serde_json::from_value(value.clone()).ok()?;
    let root = if place.rooted { place.root.to_string() } else { "...".to_owned() };
    let bridges = place.bridges.iter().map(ToString::to_string);
    Some(std::iter::once(root).chain(bridges).collect::<Vec<_>>().join("/"))
}

fn link(value: &Value) -> Option<String> {
    let fields = value.as_object().filter(|fields| fields.len() == 2)?;
    if !fields.contains_key("speed") {
        return None;
    }
    let link: Link = serde_json::from_value(value.clone()).ok()?;
    Some(if link.is_up() { link.to_string() } else { "down".to_owned() })
}

/// Drops the inode numbers of namespaces, which only distinguish them.
fn without_inodes(marks: &[Value]) -> String {
    let marks = marks.iter().filter_map(Value::as_str);
    let marks: Vec<&str> =
        marks.map(|mark| mark.split_once(":[").map_or(mark, |(name, _)| name)).collect();
    if marks.is_empty() { "none".to_owned() } else { marks.join(", ") }
}

/// Bytes in the largest unit without a remainder.
fn bytes(count: u64) -> String {
    const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.iter().find(|(_, shift)| count != 0 && count.trailing_zeros() >= *shift);
    match unit {
        Some((unit, shift)) => format!("{} {unit}", count >> shift),
        None => format!("{count} bytes"),
    }
}

/// Area and name of the fact at a path.
pub fn name(path: &[String]) -> (String, String) {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    let (area, rest): (String, &[&str]) = match parts.as_slice() {
        ["pci", bdf, rest @ ..] => (format!("PCI {bdf}"), rest),
        ["numa", id, rest @ ..] => (format!("NUMA node {id}"), rest),
        ["rdma", name, "uverbs", rest @ ..] => {
            (format!("RDMA {name}"), &[&["uverbs"], rest].concat())
        }
        ["rdma", name, rest @ ..] => (format!("RDMA {name}"), rest),
        ["network", "interfaces", name, rest @ ..] => (format!("interface {name}"), rest),
        ["network", rest @ ..] => ("network".to_owned(), rest),
        ["nvme", name, rest @ ..] => (format!("NVMe {name}"), rest),
        ["nvml", "read", "gpus", gpu, rest @ ..] => (format!("NVML GPU {gpu}"), rest),
        ["nvml", "read", "pairs", pair, rest @ ..] => (format!("NVML GPUs {pair}"), rest),
        ["nvml", "read", rest @ ..] => ("NVML".to_owned(), rest),
        ["linked_pairs", pair, rest @ ..] => (format!("GPUs {pair}"), rest),
        ["cuda", "read", "gpus", gpu, rest @ ..] => (format!("CUDA GPU {gpu}"), rest),
        ["cuda", "read", "pairs", pair, rest @ ..] => (format!("CUDA GPUs {pair}"), rest),
        ["cuda", "read", rest @ ..] => ("CUDA".to_owned(), rest),
        ["mapping", "tried", gpu, rest @ ..] => (format!("CPU mapping of GPU {gpu}"), rest),
        ["mapping", rest @ ..] => ("CPU mapping".to_owned(), rest),
        ["registration", "tried", gpu, rest @ ..] => (format!("registration of GPU {gpu}"), rest),
        ["registration", rest @ ..] => ("registration of GPU memory".to_owned(), rest),
        ["driver", "gpus", gpu, rest @ ..] => (format!("driver's GPU {gpu}"), rest),
        ["nvidia_nodes", node, rest @ ..] => (format!("node {node}"), rest),
        ["fabric", "units", unit, rest @ ..] => (format!("unit {unit}"), rest),
        ["gdrdrv", "node", rest @ ..] => ("node /dev/gdrdrv".to_owned(), rest),
        ["kernel", "modules", module, rest @ ..] => (format!("module {module}"), rest),
        ["kernel", "iommu_groups", group, rest @ ..] => (format!("IOMMU group {group}"), rest),
        ["tools", tool, rest @ ..] => (format!("tool {tool}"), rest),
        ["environment", variable, rest @ ..] => (format!("variable {variable}"), rest),
        ["libraries", path, rest @ ..] => (format!("library {path}"), rest),
        [
            "unnamed_nics" | "online_cpus" | "linked_pairs" | "pci" | "numa" | "rdma" | "nvme"
            | "nvidia_nodes" | "tools" | "environment" | "libraries",
        ] => ("machine".to_owned(), &parts),
        [area, rest @ ..] => (phrase(area), rest),
        [] => (String::new(), &[]),
    };
    (area, fact(rest))
}

fn fact(parts: &[&str]) -> String {
    let text = parts.join(" ");
    match text.as_str() {
        "config express link current" => "link".to_owned(),
        "config express" => "PCI Express capability".to_owned(),
        "config express link max" => "maximum link".to_owned(),
        "attributes link current" => LINK_OF_ATTRIBUTES.to_owned(),
        "attributes link max" => MAX_LINK_OF_ATTRIBUTES.to_owned(),
        _ => {
            let parts = parts
                .iter()
                .filter(|part| !["config", "attributes", "header", "express"].contains(part));
            let words = parts.map(|part| phrase(part)).collect::<Vec<_>>().join(" ");
            // A group of facts.
            if words.is_empty() { text } else { words }
        }
    }
}

/// The link from attribute files.
pub const LINK_OF_ATTRIBUTES: &str = "link in sysfs";
pub const MAX_LINK_OF_ATTRIBUTES: &str = "maximum link in sysfs";

/// A field's name in words.
fn phrase(name: &str) -> String {
    const WORDS: [(&str, &str); 26] = [
        ("pci", "PCI"),
        ("numa", "NUMA"),
        ("rdma", "RDMA"),
        ("nvme", "NVMe"),
        ("nvml", "NVML"),
        ("acs", "ACS"),
        ("ats", "ATS"),
        ("sriov", "SR-IOV"),
        ("cuda", "CUDA"),
        ("imex", "IMEX"),
        ("mig", "MIG"),
        ("uuid", "UUID"),
        ("bar", "BAR"),
        ("bar1", "BAR1"),
        ("bars", "BARs"),
        ("cpu", "CPU"),
        ("cpus", "CPUs"),
        ("iommu", "IOMMU"),
        ("iommus", "IOMMUs"),
        ("ids", "vendor and device"),
        ("uid", "user id"),
        ("p2p", "P2P"),
        ("dmi", "DMI"),
        ("pfc", "PFC"),
        ("dscp", "DSCP"),
        ("roce", "RoCE"),
    ];
    const NAMES: [&str; 2] = ["nvidia_peermem", "nv_peer_mem"];
    // Names of parameters and devices are kept.
    if NAMES.contains(&name) || name.chars().any(char::is_uppercase) || name.contains(['/', ':']) {
        return name.to_owned();
    }
    let words = name.split('_').map(|word| {
        let known = WORDS.iter().find(|(raw, _)| *raw == word);
        known.map_or(word, |(_, known)| known)
    });
    words.collect::<Vec<_>>().join(" ")
}

/// True if the fact differs between any two machines.
pub fn is_identity(path: &[String]) -> bool {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["host", .., "name" | "source"] => true,
        // A node's numbers identify its driver.
        [.., "state", "minor"] => false,
        [.., "uuid" | "serial_number" | "minor" | "start" | "address" | "offset"] => true,
        _ => false,
    }
}

/// True if the fact changes over time on one machine. `saves_power` takes a function's address.
pub fn is_volatile(
    path: &[String],
    a: Option<&str>,
    b: Option<&str>,
    saves_power: impl Fn(&str) -> bool,
) -> bool {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    match parts.as_slice() {
        // Major numbers are dynamic; these two are compared with their nodes.
        ["kernel", "char_devices", name] => {
            a.is_some() && b.is_some() && !name.starts_with("nvidia") && *name != "gdrdrv"
        }
        [.., "bar1", "used"] | [.., "performance_state"] | [.., "header", "status"]
            if a.is_some() && b.is_some() =>
        {
            true
        }
        ["rdma", ..] if parts.contains(&"counters") => true,
        ["network", ..] if parts.contains(&"counters") || parts.contains(&"growth") => true,
        // An idle GPU's link has the lowest speed, seen at both ends.
        ["pci", bdf, .., "link", "current"] => saves_power(bdf) && only_speed(a, b),
        ["nvml", .., "link", "current"] => only_speed(a, b),
        _ => false,
    }
}

/// True if only the link's speed differs, and one is the lowest.
fn only_speed(a: Option<&str>, b: Option<&str>) -> bool {
    let parse = |text: Option<&str>| {
        text?.split_once(" x").map(|(speed, width)| (speed.to_owned(), width.to_owned()))
    };
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => a.1 == b.1 && [a.0.as_str(), b.0.as_str()].contains(&"2.5GT/s"),
        _ => false,
    }
}

/// The value of a field that one of two documents omits.
pub fn omitted_value(path: &[String]) -> super::Node {
    let last = path.last().map(String::as_str).unwrap_or_default();
    match last {
        "trouble" | "unnamed_nics" => super::Node::Leaf("none".to_owned()),
        _ => super::Node::Unknown(Why::NotCovered),
    }
}
