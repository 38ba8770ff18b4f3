//! The GPUs, the driver and the NICs of a machine in one line.

use super::Topology;
use crate::model::{Fact, Facts, Ids, Kind, NvmlOutcome, RdmaPort, Row};

/// As in `4 × NVIDIA H200, driver 580.159.04, CUDA 13.0, 2 NICs (mlx5_core, 400 Gb/s)`. `name` gives the name of a PCI device. `None`
/// without a GPU and without a NIC.
pub fn hardware(
    facts: &Facts,
    topology: &Topology<'_>,
    name: &dyn Fn(&Ids) -> String,
) -> Option<String> {
    let model = |row: &Row| {
        if row.label.is_empty() {
            facts.device(row.bdf?)?.ids.known().map(name)
        } else {
            Some(row.label.clone())
        }
    };
    let mut parts =
        counted(topology, Kind::Gpu, |row| model(row).unwrap_or_else(|| "GPU".to_owned()));
    let nics = topology.rows.iter().filter(|row| row.kind == Kind::Nic);
    let nics = nics.count();
    if parts.is_empty() && nics == 0 {
        return None;
    }
    let nvml = match facts.nvml.known() {
        Some(NvmlOutcome::Read(nvml)) => Some(nvml),
        _ => None,
    };
    match facts.driver.version() {
        Fact::Known(version) => parts.extend(version.map(|version| format!("driver {version}"))),
        // Output of nvidia-smi alone names it too.
        Fact::Unknown(_) => parts.extend(
            nvml.and_then(|nvml| nvml.driver_version.known())
                .map(|version| format!("driver {version}")),
        ),
    }
    let cuda = nvml.and_then(|nvml| nvml.cuda_version.known().copied());
    if let Some(cuda) = cuda.filter(|cuda| *cuda > 0) {
        parts.push(format!("CUDA {}.{}", cuda / 1000, cuda % 1000 / 10));
    }
    let properties = [drivers(facts, topology), rates(facts)].concat();
    parts.extend(match (nics, properties.is_empty()) {
        // A list of PCI functions does not say it.
        (0, _) => facts.rdma.known().map(|_| "no NIC".to_owned()),
        (1, true) => Some("1 NIC".to_owned()),
        (1, false) => Some(format!("1 NIC ({})", properties.join(", "))),
        (nics, true) => Some(format!("{nics} NICs")),
        (nics, false) => Some(format!("{nics} NICs ({})", properties.join(", "))),
    });
    Some(parts.join(", "))
}

/// `4 × H200`, one part for each name, in the order of the rows.
fn counted(topology: &Topology<'_>, kind: Kind, name: impl Fn(&Row) -> String) -> Vec<String> {
    let mut names: Vec<(String, usize)> = Vec::new();
    for row in topology.rows.iter().filter(|row| row.kind == kind) {
        let name = name(row);
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => names.push((name, 1)),
        }
    }
    let names = names.into_iter();
    names
        .map(|(name, count)| match count {
            1 => name,
            _ => format!("{count} × {name}"),
        })
        .collect()
}

/// The kernel drivers of the NICs.
fn drivers(facts: &Facts, topology: &Topology<'_>) -> Vec<String> {
    let nics = topology.rows.iter().filter(|row| row.kind == Kind::Nic);
    let driver = |row: &Row| {
        let attributes = facts.device(row.bdf?)?.attributes.as_ref()?;
        attributes.driver.known()?.clone()
    };
    distinct(nics.filter_map(driver))
}

/// The rates of active ports, as in `400 Gb/s`.
fn rates(facts: &Facts) -> Vec<String> {
    let ports = facts.rdma.known().into_iter().flatten();
    let ports = ports.flat_map(|device| device.ports.known().into_iter().flatten());
    let active = ports.filter(|port| port.is_active());
    distinct(active.filter_map(RdmaPort::speed))
}

fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}
