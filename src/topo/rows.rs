//! Rows of the matrix: GPUs by address, RDMA devices by name, NVMe controllers by number.

use crate::model::{
    Bdf, DriverGpu, Fact, Facts, IdList, Ids, Kind, PciDevice, RdmaDevice, Row, Why,
};

pub fn rows(facts: &Facts) -> Vec<Row> {
    let gpus = managed_gpus(facts).into_iter().enumerate().map(|(n, d)| gpu(facts, n, d));
    let nics = facts
        .rdma
        .known()
        .into_iter()
        .flatten()
        .filter(|device| device.management != Fact::Known(true))
        // Without their addresses, these are the same NICs.
        .filter(|_| facts.unnamed_nics.is_empty())
        // A matrix without a legend shows them by number.
        .filter(|device| device.place.present().is_some() || !has_numbered_nics(facts))
        .enumerate()
        .map(|(n, device)| nic(facts, n, device));
    let unnamed = facts.unnamed_nics.iter().enumerate().map(|(n, bdf)| Row {
        label: bdf.to_string(),
        named: false,
        ..row(facts, format!("NIC{n}"), Kind::Nic, Some(*bdf), facts.device(*bdf))
    });
    let nvme = facts.nvme.known().into_iter().flatten().enumerate().map(|(n, (name, bdf))| {
        let device = facts.device(*bdf);
        Row {
            label: name.clone(),
            // A PCI dump has no names, so use addresses.
            named: name.parse::<Bdf>().is_err(),
            ..row(facts, format!("NVME{n}"), Kind::Nvme, Some(*bdf), device)
        }
    });
    let known: Vec<Row> = gpus.chain(nics).chain(unnamed).collect();
    let listed = listed(facts, &known);
    let (gpus, nics): (Vec<Row>, Vec<Row>) =
        known.into_iter().chain(listed).partition(|row| row.kind == Kind::Gpu);
    gpus.into_iter().chain(nics).chain(nvme).collect()
}

/// The devices that a text lists without addresses: the GPUs behind those with one, and NICs of other names.
fn listed(facts: &Facts, known: &[Row]) -> Vec<Row> {
    let Some(listed) = &facts.listed else {
        return Vec::new();
    };
    let placed = known.iter().filter(|row| row.kind == Kind::Gpu).count();
    let gpus = listed.gpus.iter().enumerate().skip(placed).map(|(n, gpu)| Row {
        label: gpu.model.clone().unwrap_or_default(),
        uuid: gpu.uuid.clone(),
        numa: gpu.numa_node.clone(),
        nodes: nodes(facts, &gpu.cpus),
        cpus: gpu.cpus.clone(),
        nvlinks: Fact::Unknown(Why::NotCovered),
        ..row(facts, format!("GPU{n}"), Kind::Gpu, None, None)
    });
    let nics = known.iter().filter(|row| row.kind == Kind::Nic).count();
    let is_other = |name: &&String| !known.iter().any(|row| row.label == **name);
    let names = listed.nics.iter().filter(|_| facts.unnamed_nics.is_empty()).filter(is_other);
    let added = names.enumerate().map(|(n, name)| Row {
        label: name.clone(),
        ..row(facts, format!("NIC{}", nics + n), Kind::Nic, None, None)
    });
    gpus.chain(added).collect()
}

/// True if a matrix shows NICs by number and has no legend.
fn has_numbered_nics(facts: &Facts) -> bool {
    let is_number = |name: &String| {
        name.strip_prefix("NIC").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    facts.listed.iter().flat_map(|listed| &listed.nics).any(is_number)
}

/// The GPUs of the driver, in the order of nvidia-smi and CUDA; without driver data, all GPUs.
fn managed_gpus(facts: &Facts) -> Vec<&PciDevice> {
    let managed = |device: &&PciDevice| match facts.driver.gpus.known() {
        Some(gpus) if !gpus.is_empty() => gpus.contains_key(&device.bdf),
        _ => true,
    };
    facts.gpus().filter(managed).collect()
}

fn gpu(facts: &Facts, number: usize, device: &PciDevice) -> Row {
    let nvml = facts.nvml().and_then(|nvml| nvml.gpus.iter().find(|gpu| gpu.bdf == device.bdf));
    let driver = facts.driver.gpus.known().and_then(|gpus| gpus.get(&device.bdf));
    let from_driver = |field: fn(&DriverGpu) -> Option<String>| driver.and_then(field);
    let name = nvml.and_then(|gpu| gpu.name.known().cloned());
    let uuid = nvml.and_then(|gpu| gpu.uuid.known().cloned());
    let listed = || facts.listed.as_ref().and_then(|listed| listed.gpus.get(number)?.model.clone());
    let label =
        name.or_else(|| from_driver(|gpu| gpu.model.clone())).or_else(listed).unwrap_or_default();
    let is = |property: fn(&Ids) -> bool| device.ids.known().is_some_and(property);
    Row {
        integrated: is(Ids::is_integrated_gpu),
        module: is(Ids::is_module_gpu) || label.contains("SXM"),
        label,
        uuid: uuid.or_else(|| from_driver(|gpu| gpu.uuid.clone())),
        memory_node: nvml.and_then(|gpu| gpu.memory_node.present().copied()),
        coherent: is(Ids::is_coherent_gpu),
        nvlinks: match nvml {
            Some(gpu) => gpu
                .active_links
                .as_ref()
                .map(|links| u32::try_from(links.len()).unwrap_or(u32::MAX)),
            None => Fact::Unknown(facts.nvml.why().unwrap_or(Why::NotCovered)),
        },
        ..row(facts, format!("GPU{number}"), Kind::Gpu, Some(device.bdf), Some(device))
    }
}

fn nic(facts: &Facts, number: usize, rdma: &RdmaDevice) -> Row {
    let bdf = rdma.place.present().copied();
    let states = rdma.ports.known().map(|ports| ports.iter().filter_map(|port| port.state.known()));
    Row {
        label: rdma.name.clone(),
        virtual_function: facts.virtual_function(rdma),
        software: matches!(rdma.parent, Fact::Known(Some(_))),
        active: states.and_then(|mut states| {
            let mut seen = false;
            let active = states.any(|state| {
                seen = true;
                state == "ACTIVE"
            });
            seen.then_some(active)
        }),
        ..row(facts, format!("NIC{number}"), Kind::Nic, bdf, bdf.and_then(|bdf| facts.device(bdf)))
    }
}

fn row(
    facts: &Facts,
    name: String,
    kind: Kind,
    bdf: Option<Bdf>,
    device: Option<&PciDevice>,
) -> Row {
    let cpus = cpus(facts, device);
    Row {
        name,
        kind,
        bdf,
        label: String::new(),
        named: true,
        uuid: None,
        numa: device.map_or(Fact::Unknown(Why::NotCovered), |device| device.numa_node.clone()),
        nodes: nodes(facts, &cpus),
        cpus,
        memory_node: None,
        coherent: false,
        integrated: false,
        module: false,
        nvlinks: Fact::Known(0),
        virtual_function: None,
        software: false,
        active: None,
    }
}

/// The CPUs near a function: its own list, else that of its NUMA node.
fn cpus(facts: &Facts, device: Option<&PciDevice>) -> Fact<IdList> {
    let attributes = device.and_then(|device| device.attributes.as_ref());
    let own = attributes
        .map_or(Fact::Unknown(Why::NotCovered), |attributes| attributes.local_cpus.clone());
    let node = device.and_then(|device| device.numa_node.present());
    let of_node = node.and_then(|id| {
        let nodes = facts.numa.known()?;
        nodes.iter().find(|node| node.id == *id)
    });
    match (own, of_node) {
        (Fact::Unknown(_), Some(node)) if !node.cpus.is_empty() => Fact::Known(node.cpus.clone()),
        (own, _) => own,
    }
}

fn nodes(facts: &Facts, cpus: &Fact<IdList>) -> Fact<IdList> {
    match (cpus, &facts.numa) {
        (Fact::Known(cpus), Fact::Known(nodes)) => {
            let near = nodes.iter().filter(|node| node.cpus.intersects(cpus));
            Fact::Known(IdList::new(near.map(|node| node.id)))
        }
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => Fact::Unknown(*why),
    }
}
