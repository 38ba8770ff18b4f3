//! What a machine has, for each key of the table `expect` of a profile.

use std::collections::BTreeMap;

use crate::check::memory_path::{self, PathState};
use crate::check::{Ctx, nics, version, words};
use crate::model::{Area, Fact, Kind, PciDevice, RdmaDevice, RdmaPort, Row, Why};

/// One device's value of one key.
pub struct Observation {
    /// Name in the profile: a PCI address, an RDMA device, a class of pairs.
    pub device: String,
    /// Subject of a finding.
    pub subject: String,
    pub found: Fact<String>,
    pub source: String,
    pub area: Area,
}

/// The values of a key on this machine: one for each device. Empty for keys that no fact of a machine has.
pub fn observe(ctx: &Ctx<'_>, key: &str) -> Vec<Observation> {
    match key.split_once('.') {
        Some(("gpus", "count" | "addresses")) => vec![devices(ctx, Kind::Gpu, key)],
        Some(("nics", "count" | "names")) => vec![devices(ctx, Kind::Nic, key)],
        Some(("gpus", name)) => gpus(ctx, name),
        Some(("nics", name)) => each_nic(ctx, |nic| nic_value(ctx, nic, name)),
        Some(("ports", name)) => each_nic(ctx, |nic| port_value(nic, name)),
        Some(("memory-path", name)) => each_nic(ctx, |nic| memory_path(ctx, nic, name)),
        Some(("pairs", name)) => pairs(ctx, name),
        None if key == "driver" => vec![machine(
            "driver",
            version::driver(ctx.facts)
                .map(|driver| driver.unwrap_or_else(|| "not loaded".to_owned())),
            "/sys/module/nvidia/version, /proc/driver/nvidia/version",
            Area::Sys,
        )],
        _ => Vec::new(),
    }
}

fn machine(subject: &str, found: Fact<String>, source: &str, area: Area) -> Observation {
    Observation {
        device: subject.to_owned(),
        subject: subject.to_owned(),
        found,
        source: source.to_owned(),
        area,
    }
}

/// Number or names of the GPUs or NICs.
fn devices(ctx: &Ctx<'_>, kind: Kind, key: &str) -> Observation {
    let (source, list) = match kind {
        Kind::Gpu => ("/sys/bus/pci/devices", ctx.facts.pci.why()),
        _ => ("/sys/class/infiniband", ctx.facts.rdma.why()),
    };
    let rows = ctx.topology.rows_of(kind).map(|(_, row)| row);
    let rows: Vec<&Row> = rows.filter(|row| !row.software).collect();
    let name = |row: &&Row| match (kind, row.bdf) {
        (Kind::Gpu, Some(bdf)) => bdf.to_string(),
        _ => row.label.clone(),
    };
    let why = list.or(ctx.facts.partial.then_some(Why::NotCovered));
    let found = match (why, key.ends_with("count")) {
        // A dump without RDMA names lists the functions that look like NICs.
        (Some(_), true) if !ctx.facts.partial && !ctx.facts.unnamed_nics.is_empty() => {
            Fact::Known(rows.len().to_string())
        }
        (Some(why), _) => Fact::Unknown(why),
        (None, true) => Fact::Known(rows.len().to_string()),
        (None, false) => Fact::Known(words::list(rows.iter().map(name))),
    };
    machine("machine", found, source, Area::Sys)
}

fn gpus(ctx: &Ctx<'_>, name: &str) -> Vec<Observation> {
    if let Some(why) = ctx.facts.pci.why() {
        return vec![machine("machine", Fact::Unknown(why), "/sys/bus/pci/devices", Area::Sys)];
    }
    let rows = ctx.topology.rows_of(Kind::Gpu).map(|(_, row)| row);
    let each = rows.filter_map(|row| {
        let device = ctx.facts.device(row.bdf?)?;
        let (found, source, area) = gpu_value(ctx, row, device, name);
        Some(Observation {
            device: device.bdf.to_string(),
            subject: words::row(row),
            found,
            source,
            area,
        })
    });
    each.collect()
}

fn gpu_value(
    ctx: &Ctx<'_>,
    row: &Row,
    device: &PciDevice,
    name: &str,
) -> (Fact<String>, String, Area) {
    let nvml = ctx.facts.nvml().into_iter().flat_map(|nvml| &nvml.gpus);
    let nvml = nvml.into_iter().find(|gpu| gpu.bdf == device.bdf);
    let why = ctx.facts.nvml.why().unwrap_or(Why::NotCovered);
    let of_nvml = |found: Option<Fact<String>>| {
        (found.unwrap_or(Fact::Unknown(why)), "NVML".to_owned(), Area::Nvml)
    };
    match name {
        "memory" => of_nvml(nvml.map(|gpu| gpu.memory_total.as_ref().map(mib))),
        "mig" => of_nvml(nvml.map(|gpu| gpu.mig.as_ref().map(bool::to_string))),
        "model" => {
            let model = match row.label.as_str() {
                "" => Fact::Unknown(why),
                label => Fact::Known(label.to_owned()),
            };
            (model, "/proc/driver/nvidia/gpus, NVML".to_owned(), Area::Proc)
        }
        "bar1" => {
            let resources = device.attributes.as_ref().map(|attributes| &attributes.resources);
            let bars = resources.map_or(Fact::default(), |bars| bars.as_ref());
            // The one that maps its memory; the others hold registers and interrupts.
            let largest = bars.map(|bars| {
                let sizes = bars.iter().filter(|bar| bar.is_prefetchable_memory());
                mib(&sizes.map(|bar| bar.size).max().unwrap_or(0))
            });
            (largest, sysfs(device, "resource"), Area::Sys)
        }
        _ => function_value(ctx, device, name, false),
    }
}

fn nic_value(ctx: &Ctx<'_>, nic: &RdmaDevice, name: &str) -> (Fact<String>, String, Area) {
    let text = |value: &Fact<Option<String>>, file: &str| {
        let none = || "none".to_owned();
        let found = value.as_ref().map(|value| value.clone().unwrap_or_else(none));
        (found, format!("/sys/class/infiniband/{}/{file}", nic.name), Area::Sys)
    };
    match name {
        "chip" => text(&nic.chip, "hca_type"),
        "board" => text(&nic.board, "board_id"),
        "firmware" => text(&nic.firmware, "fw_ver"),
        _ => {
            let function = nic.place.present().and_then(|bdf| ctx.facts.device(*bdf));
            match function {
                Some(device) => function_value(ctx, device, name, true),
                None => (
                    Fact::Unknown(nic.place.why().unwrap_or(Why::NotCovered)),
                    format!("the PCI function of {}", nic.name),
                    Area::Sys,
                ),
            }
        }
    }
}

/// A fact of a PCI function.
fn function_value(
    ctx: &Ctx<'_>,
    device: &PciDevice,
    name: &str,
    is_awake: bool,
) -> (Fact<String>, String, Area) {
    match name {
        "id" => (device.ids.as_ref().map(ToString::to_string), sysfs(device, "config"), Area::Sys),
        "numa" => {
            let node = device.numa_node.as_ref();
            let node = node.map(|node| node.map_or("none".to_owned(), |node| node.to_string()));
            (node, sysfs(device, "numa_node"), Area::Sys)
        }
        _ => {
            let link = ctx.forest.link_above(device).map(|link| match link {
                // The link of an idle GPU slows down and keeps its width.
                Some(link) if is_awake => link.current.to_string(),
                Some(link) => format!("{} x{}", link.max.speed, link.current.width),
                None => "none".to_owned(),
            });
            (link, format!("the link above {}", device.bdf), Area::ConfigSpace)
        }
    }
}

fn port_value(nic: &RdmaDevice, name: &str) -> (Fact<String>, String, Area) {
    let source = format!("/sys/class/infiniband/{}/ports", nic.name);
    let ports = match &nic.ports {
        Fact::Known(ports) => ports,
        Fact::Unknown(why) => return (Fact::Unknown(*why), source, Area::Sys),
    };
    let found = match name {
        "active" => states(ports).map(|states| {
            let active = states.iter().filter(|state| **state == "ACTIVE");
            active.count().to_string()
        }),
        "layer" => common(ports, |port| port.link_layer.clone()),
        // In Gb/s, as in `400 Gb/sec (4X NDR)`.
        _ => common(ports, |port| {
            let rate = port.rate.as_ref();
            rate.map(|rate| rate.split(' ').next().unwrap_or_default().to_owned())
        }),
    };
    (found, source, Area::Sys)
}

fn states(ports: &[RdmaPort]) -> Fact<Vec<&str>> {
    let mut states = Vec::new();
    for port in ports {
        match &port.state {
            Fact::Known(state) => states.push(state.as_str()),
            Fact::Unknown(why) => return Fact::Unknown(*why),
        }
    }
    Fact::Known(states)
}

/// The value of all ports of a device; several if they differ.
fn common(ports: &[RdmaPort], value: impl Fn(&RdmaPort) -> Fact<String>) -> Fact<String> {
    let mut values = Vec::new();
    for port in ports {
        match value(port) {
            Fact::Known(value) if values.contains(&value) => {}
            Fact::Known(value) => values.push(value),
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
    }
    Fact::Known(values.join(", "))
}

fn memory_path(ctx: &Ctx<'_>, nic: &RdmaDevice, name: &str) -> (Fact<String>, String, Area) {
    let provider = nics::driver(ctx.facts, nic);
    let state = match name {
        "dma-buf" => memory_path::dma_buf(ctx, &provider),
        _ => memory_path::peer_memory(ctx, nic, &provider),
    };
    let (source, area) = ("modules and drivers".to_owned(), Area::Sys);
    match state {
        PathState::Open(_) => (Fact::Known("open".to_owned()), source, area),
        PathState::Closed(why) => (Fact::Known("closed".to_owned()), why, area),
        PathState::Unknown(why, area, source) => (Fact::Unknown(why), source, area),
    }
}

fn each_nic(
    ctx: &Ctx<'_>,
    value: impl Fn(&RdmaDevice) -> (Fact<String>, String, Area),
) -> Vec<Observation> {
    if let Some(why) = ctx.facts.rdma.why() {
        return vec![machine("machine", Fact::Unknown(why), "/sys/class/infiniband", Area::Sys)];
    }
    let each = nics::rdma_nics(ctx.facts).map(|nic| {
        let (found, source, area) = value(nic);
        Observation { device: nic.name.clone(), subject: nic.name.clone(), found, source, area }
    });
    each.collect()
}

/// The number of pairs by class, or by number of NVLinks.
fn pairs(ctx: &Ctx<'_>, name: &str) -> Vec<Observation> {
    let unknown =
        |why, source: &str, area| vec![machine("machine", Fact::Unknown(why), source, area)];
    if let Some(why) = ctx.facts.pci.why().or(ctx.facts.rdma.why()) {
        return unknown(why, "/sys/bus/pci/devices, /sys/class/infiniband", Area::Sys);
    }
    if ctx.topology.omission().is_some() {
        return unknown(Why::NotCovered, "every pair: there are too many", Area::Sys);
    }
    let gpus: Vec<usize> = ctx.topology.rows_of(Kind::Gpu).map(|(at, _)| at).collect();
    let nics = ctx.topology.rows_of(Kind::Nic).filter(|(_, row)| !row.software);
    let nics: Vec<usize> = nics.map(|(at, _)| at).collect();
    let others = if name == "gpu-nic" { &nics } else { &gpus };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for gpu in &gpus {
        for other in others.iter().filter(|other| name == "gpu-nic" || gpu < *other) {
            let Some(pair) = ctx.topology.pair(*gpu, *other) else {
                continue;
            };
            let class = match name {
                "nvlinks" => pair.nvlinks.map(|count| count.to_string()),
                _ => pair.pci.map(|class| class.letters().to_owned()),
            };
            match class {
                Fact::Known(class) => *counts.entry(class).or_default() += 1,
                Fact::Unknown(why) if name == "nvlinks" => {
                    return unknown(why, "NVML: NVLinks", Area::Nvml);
                }
                Fact::Unknown(why) => {
                    return unknown(why, "the places of GPUs and NICs", Area::Sys);
                }
            }
        }
    }
    let each = counts.into_iter().map(|(class, count)| Observation {
        subject: "machine".to_owned(),
        found: Fact::Known(count.to_string()),
        source: format!("{class} in gdr topo"),
        area: Area::Sys,
        device: class,
    });
    each.collect()
}

fn mib(bytes: &u64) -> String {
    (bytes >> 20).to_string()
}

fn sysfs(device: &PciDevice, file: &str) -> String {
    format!("/sys/bus/pci/devices/{}/{file}", device.bdf)
}
