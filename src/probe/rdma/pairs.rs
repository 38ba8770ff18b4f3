//! Pairs of memory and port: each GPU with its best NIC, or with all NICs.

use super::curve::Curve;
use super::options::{MemoryKind, Named, Options};
use super::task::{Extent, LocalEnd, Memory, Part, Port, Task};
use crate::probe::children::Children;
use crate::probe::machine::{Machine, ProbedNic};
use crate::probe::scope::ProbeError;
use crate::probe::target::Target;

/// The selected ends of this machine, in order of the GPUs and NICs. The error says what is missing.
pub fn places(
    options: &Options,
    nics: &[ProbedNic],
    gpus: &[Target],
) -> Result<Vec<LocalEnd>, String> {
    let wanted = options
        .devices
        .iter()
        .map(|named| find_port(named, nics))
        .collect::<Result<Vec<_>, String>>()?;
    if wanted.is_empty() && up(nics).is_empty() {
        return Err(no_port(nics));
    }
    let on_gpus = matches!(options.kind, MemoryKind::Gpu | MemoryKind::Pinned)
        || (options.kind == MemoryKind::Best && !gpus.is_empty());
    if !on_gpus {
        let memory = if options.kind == MemoryKind::Huge { Memory::Huge } else { Memory::Host };
        let ports = if wanted.is_empty() { up(nics) } else { wanted };
        let places = ports.into_iter().map(|(nic, port)| place(options, nic, port, &memory, None));
        return Ok(places.flat_map(|place| each_gid(options, &place)).collect());
    }
    let mut places = Vec::new();
    for gpu in gpus {
        let memory = match options.kind {
            MemoryKind::Pinned => Memory::Pinned(gpu.clone()),
            _ => Memory::Gpu(gpu.clone(), options.memory_path),
        };
        let ports = match (wanted.is_empty(), options.all) {
            (false, true) => wanted.clone(),
            (true, true) => up(nics),
            (false, false) => nearest(gpu, &wanted).into_iter().collect(),
            (true, false) => nearest(gpu, &up(nics)).into_iter().collect(),
        };
        places.extend(
            ports
                .into_iter()
                .map(|(nic, port)| place(options, nic, port, &memory, Some(gpu)))
                .flat_map(|place| each_gid(options, &place)),
        );
    }
    Ok(places)
}

/// An end with each of the selected GIDs.
fn each_gid(options: &Options, place: &LocalEnd) -> Vec<LocalEnd> {
    match options.gids.as_slice() {
        [] | [_] => vec![place.clone()],
        gids => gids.iter().map(|gid| with_gid(place, *gid)).collect(),
    }
}

fn with_gid(place: &LocalEnd, gid: u8) -> LocalEnd {
    let mut place = place.clone();
    place.subject = format!("{} GID {gid}", place.subject);
    place.port.gid = Some(gid);
    place
}

/// The remote end on this machine: the named port, with memory of the GPU whose best NIC it is, else of the local GPU.
pub fn remote(
    options: &Options,
    nics: &[ProbedNic],
    gpus: &[Target],
    named: &Named,
    local: &LocalEnd,
) -> Result<LocalEnd, String> {
    let (nic, port) = find_port(named, nics)?;
    let nearest_gpu = |target: &Target| {
        let its = |gpu: &&Target| gpu.bdf.is_some_and(|bdf| nic.best_of.contains(&bdf));
        gpus.iter().find(its).unwrap_or(target).clone()
    };
    let (memory, gpu) = match &local.memory {
        Memory::Gpu(target, memory_path) => {
            (Memory::Gpu(nearest_gpu(target), *memory_path), Some(nearest_gpu(target)))
        }
        Memory::Pinned(target) => (Memory::Pinned(nearest_gpu(target)), Some(nearest_gpu(target))),
        plain => (plain.clone(), None),
    };
    let remote =
        LocalEnd { curve: local.curve, ..place(options, nic, port, &memory, gpu.as_ref()) };
    Ok(match local.port.gid {
        Some(gid) if options.gids.len() > 1 => with_gid(&remote, gid),
        _ => remote,
    })
}

/// Each place as the curves of `gdr probe transfer`; the far one at the last other port.
pub fn curves(options: &Options, nics: &[ProbedNic], places: &[LocalEnd]) -> Vec<LocalEnd> {
    let far = |place: &LocalEnd| {
        let gpu = match &place.memory {
            Memory::Gpu(gpu, _) => gpu,
            _ => return None,
        };
        let others = up(nics)
            .into_iter()
            .filter(|(nic, _)| options.devices.is_empty() && nic.name != place.port.device);
        // In the order of nvidia-smi's classes, the farthest last.
        let rank = |nic: &ProbedNic| {
            const CLASSES: [&str; 5] = ["PIX", "PXB", "PHB", "NODE", "SYS"];
            let mut reaches = nic.reaches.iter();
            let reach = reaches.find(|reach| Some(reach.gpu) == gpu.bdf)?;
            let class = reach.class.as_deref()?;
            CLASSES.iter().position(|known| *known == class)
        };
        let (nic, port) = others.max_by_key(|(nic, _)| rank(nic))?;
        Some(self::place(options, nic, port, &place.memory, Some(gpu)))
    };
    let of_place = |place: &LocalEnd| -> Vec<LocalEnd> {
        let curve = |curve: Curve| match curve {
            Curve::Far => curve.place(&far(place)?),
            curve => curve.place(place),
        };
        Curve::ALL.into_iter().filter_map(curve).collect()
    };
    places.iter().flat_map(of_place).collect()
}

/// The port of a GPU's best NIC, or of the named one. The error says what is missing.
pub fn port_of(
    gpu: &Target,
    nics: &[ProbedNic],
    named: Option<&Named>,
    gid: Option<u8>,
) -> Result<Port, String> {
    let (nic, number) = match named {
        Some(named) => find_port(named, nics)?,
        None => nearest(gpu, &up(nics)).ok_or_else(|| no_port(nics))?,
    };
    Ok(Port { device: nic.name.clone(), number, gid, pkey_index: 0, simulated: false })
}

/// The first port of each NIC that has one up.
fn up(nics: &[ProbedNic]) -> Vec<(&ProbedNic, u8)> {
    let first = |nic: &ProbedNic| nic.ports.first().map(|(port, _)| *port);
    nics.iter().filter_map(|nic| Some((nic, first(nic)?))).collect()
}

fn no_port(nics: &[ProbedNic]) -> String {
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    match names.as_slice() {
        [] => "libibverbs has no RDMA device: see gdr doctor --only rdma.device,rdma.provider"
            .to_owned(),
        names => format!(
            "no port of {} is up: see gdr doctor --only rdma.port, or name one with --device",
            names.join(", ")
        ),
    }
}

fn find_port<'c>(named: &Named, nics: &'c [ProbedNic]) -> Result<(&'c ProbedNic, u8), String> {
    let nic = nics.iter().find(|nic| nic.name == named.device).ok_or_else(|| {
        let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
        let available = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!("libibverbs has no device '{}'; available: {available}", named.device)
    })?;
    let first = nic.ports.first().map_or(1, |(port, _)| *port);
    Ok((nic, named.port.unwrap_or(first)))
}

/// The one that the topology chose, else the first.
fn nearest<'c>(gpu: &Target, ports: &[(&'c ProbedNic, u8)]) -> Option<(&'c ProbedNic, u8)> {
    let is_best =
        |(nic, _): &&(&ProbedNic, u8)| gpu.bdf.is_some_and(|bdf| nic.best_of.contains(&bdf));
    ports.iter().find(is_best).or(ports.first()).copied()
}

fn place(
    options: &Options,
    nic: &ProbedNic,
    port: u8,
    memory: &Memory,
    gpu: Option<&Target>,
) -> LocalEnd {
    let reach = gpu.and_then(|gpu| {
        let bdf = gpu.bdf?;
        nic.reaches.iter().find(|reached| reached.gpu == bdf)
    });
    let at = format!("{}:{port}", nic.name);
    LocalEnd {
        subject: match gpu {
            Some(gpu) => format!("{} {at}", gpu.subject.split(' ').next().unwrap_or_default()),
            None => at,
        },
        port: Port {
            device: nic.name.clone(),
            number: port,
            gid: options.gids.first().copied(),
            pkey_index: options.pkey_index,
            simulated: options.simulates_nic(),
        },
        memory: memory.clone(),
        class: reach.and_then(|reach| reach.class.clone()),
        path: reach.and_then(|reach| reach.pci),
        expected: reach.and_then(|reach| reach.expected),
        rate: if nic.software {
            // The kernel invents the rate of a software NIC.
            None
        } else {
            nic.ports.iter().find(|(number, _)| *number == port).and_then(|(_, rate)| *rate)
        },
        bonded: nic.bonded,
        driver: nic.driver.clone(),
        functions: nic.functions.clone(),
        virtual_function: nic.virtual_function,
        relaxed_ordering: nic.relaxed_ordering,
        ..LocalEnd::default()
    }
}

/// Those that libibverbs serves; of one that sysfs does not show, which a container may hide, nothing but its name is known. `None` if
/// the probe cannot continue.
pub fn served(
    machine: &Machine,
    children: &mut Children<'_>,
) -> Result<Option<Vec<ProbedNic>>, ProbeError> {
    let known = |name: &String| machine.nics.iter().find(|nic| nic.name == *name).cloned();
    let bare = |name: &String| ProbedNic {
        name: name.clone(),
        ports: vec![(1, None)],
        ..ProbedNic::default()
    };
    let find = |name: &String| known(name).unwrap_or_else(|| bare(name));
    Ok(children.nics()?.map(|names| names.iter().map(find).collect()))
}

/// The task of a child with both ends.
pub fn task(options: &Options, local: &LocalEnd, remote: &LocalEnd) -> Task {
    let is_loop = local.port == remote.port;
    let ports = if is_loop { [None; 2] } else { [local.rate_of_bond(), remote.rate_of_bond()] };
    let subject =
        if is_loop { local.subject.clone() } else { pair_subject(&local.subject, &remote.subject) };
    let limits = [local.path, remote.path].into_iter().chain(ports);
    new_task(
        options,
        subject,
        Part::Both(local.clone(), Box::new(remote.clone())),
        limits.flatten().min(),
    )
}

/// The task of a child. `limit` is the bandwidth of the connection in bytes per second.
pub fn new_task(options: &Options, subject: String, part: Part, limit: Option<u64>) -> Task {
    Task {
        subject,
        part,
        limit,
        room: options.room(),
        queue_pairs: options.queue_pairs,
        settings: options.settings,
        relaxed_ordering: options.relaxed_ordering,
        on_demand: options.on_demand,
        extent: match (options.link, options.all) {
            (true, _) => Extent::Link,
            (false, true) => Extent::OneFigure,
            (false, false) => Extent::Whole,
        },
        terms: options.scope.terms.clone(),
    }
}

/// As in `GPU0 mlx5_0:1 -> GPU1 mlx5_1:1`.
pub fn pair_subject(local: &str, remote: &str) -> String {
    format!("{local} -> {remote}")
}
