//! Numbers and versions of a machine, for metrics and comparisons. It judges nothing.

use std::collections::BTreeMap;

use super::{Ctx, nics, version};
use crate::model::{
    Bdf, Counts, DeviceReading, ErrorCounts, Fact, Facts, Kind, PciDevice, PortReading, RdmaDevice,
    Readings, counter,
};

pub fn readings(ctx: &Ctx<'_>) -> Readings {
    let facts = ctx.facts;
    let is_whole = facts.pci.known().is_some() && !facts.partial;
    let ports = nics::rdma_nics(facts).flat_map(|nic| {
        nic.ports.known().into_iter().flatten().map(|port| PortReading {
            name: format!("{}:{}", nic.name, port.number),
            state: port.state.known().cloned(),
            rate: port.rate.known().and_then(|rate| rate.split_once(" Gb/sec")?.0.parse().ok()),
        })
    });
    Readings {
        versions: versions(facts),
        gpus: is_whole.then(|| gpus(ctx)),
        nics: (is_whole && facts.rdma.known().is_some())
            .then(|| nics::rdma_nics(facts).map(|nic| nic_reading(ctx, nic)).collect()),
        ports: ports.collect(),
        counters: counters(facts),
    }
}

fn versions(facts: &Facts) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    let mut add = |name: &str, version: Option<String>| {
        if let Some(version) = version {
            versions.insert(name.to_owned(), version);
        }
    };
    add("kernel", facts.host.kernel.clone());
    add("system", facts.host.os.clone());
    add("driver", version::driver(facts).known().cloned().flatten());
    let cuda = facts.nvml().and_then(|nvml| nvml.cuda_version.known().copied());
    add("CUDA", cuda.map(|cuda| format!("{}.{}", cuda / 1000, cuda % 1000 / 10)));
    for nic in nics::rdma_nics(facts) {
        add(&format!("firmware of {}", nic.name), nic.firmware.present().cloned());
    }
    for library in facts.software.libraries.known().into_iter().flatten() {
        add(&library.path, library.version.clone());
    }
    versions
}

fn gpus(ctx: &Ctx<'_>) -> Vec<DeviceReading> {
    let rows = ctx.topology.rows_of(Kind::Gpu).map(|(_, row)| row);
    let each = rows.filter_map(|row| {
        let device = ctx.facts.device(row.bdf?)?;
        let nvml = ctx.facts.nvml().into_iter().flat_map(|nvml| &nvml.gpus);
        let bar1 = nvml.filter(|gpu| gpu.bdf == device.bdf).find_map(|gpu| gpu.bar1.known());
        let model = Some(row.label.clone()).filter(|label| !label.is_empty());
        let ids = || device.ids.known().map(ToString::to_string);
        Some(DeviceReading {
            name: row.name.clone(),
            model: model.or_else(ids),
            bar1: bar1.map(|bar1| bar1.total),
            bar1_used: bar1.map(|bar1| bar1.used),
            ..with_link(ctx, device)
        })
    });
    each.collect()
}

fn nic_reading(ctx: &Ctx<'_>, nic: &RdmaDevice) -> DeviceReading {
    let function = nic.place.present().and_then(|bdf| ctx.facts.device(*bdf));
    DeviceReading {
        name: nic.name.clone(),
        model: nic.board.present().or(nic.chip.present()).cloned(),
        ..function.map_or_else(DeviceReading::default, |device| with_link(ctx, device))
    }
}

/// The address of a function, and the link above it.
fn with_link(ctx: &Ctx<'_>, device: &PciDevice) -> DeviceReading {
    let link = ctx.forest.link_above(device).known().copied().flatten();
    DeviceReading {
        bdf: Some(device.bdf.to_string()),
        width: link.map(|link| link.current.width),
        max_width: link.map(|link| link.max.width),
        speed: link.and_then(|link| link.current.speed.gigatransfers()),
        max_speed: link.and_then(|link| link.max.speed.gigatransfers()),
        ..DeviceReading::default()
    }
}

/// The counters that are not zero.
fn counters(facts: &Facts) -> Counts {
    let mut counts = Counts::new();
    for nic in nics::rdma_nics(facts) {
        for port in nic.ports.known().into_iter().flatten() {
            if let Some(counters) = port.counters.present() {
                counts.insert(format!("{}:{}", nic.name, port.number), counters.clone());
            }
        }
    }
    for (name, interface) in facts.network.known().into_iter().flat_map(|all| &all.interfaces) {
        if let Some(counters) = interface.counters.present() {
            counts.insert(name.clone(), counters.clone());
        }
    }
    for device in facts.devices() {
        let attributes = device.attributes.as_ref();
        if let Some(errors) = attributes.and_then(|attributes| attributes.errors.present()) {
            counts.insert(device.bdf.to_string(), errors_by_name(errors));
        }
    }
    for gpu in facts.nvml().into_iter().flat_map(|nvml| &nvml.gpus) {
        if let Fact::Known(errors) = &gpu.link_errors {
            let named = errors.iter().map(|(name, count)| (format!("nvlink.{name}"), *count));
            let judged = named.filter(|(name, count)| *count > 0 && counter(name).is_some());
            counts.insert(nvlinks_of(gpu.bdf), judged.collect());
        }
    }
    counts
}

/// Name of a GPU's NVLinks among the devices with counters.
pub fn nvlinks_of(gpu: Bdf) -> String {
    format!("NVLink of {gpu}")
}

/// Errors of PCI Express by the names of the table of counters.
fn errors_by_name(errors: &ErrorCounts) -> BTreeMap<String, u64> {
    let kinds = [
        ("fatal", &errors.fatal),
        ("nonfatal", &errors.nonfatal),
        ("correctable", &errors.correctable),
    ];
    let named = kinds.into_iter().flat_map(|(kind, counts)| {
        counts.iter().map(move |(error, count)| (format!("{kind}.{error}"), *count))
    });
    named.filter(|(_, count)| *count > 0).collect()
}
