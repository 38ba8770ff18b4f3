//! Why a path was slower than another one that NCCL has: a variable, what was not loaded, the topology, or "the log does not
//! say". A reason is a line of the log.

use std::collections::{BTreeMap, BTreeSet};

use super::collector::Collector;
use super::message::{HopEnd, Reason};
use crate::model::{
    Allowed, FasterPath, Gdrdma, Job, JobPath, Loss, LostBandwidth, Quote, ReasonKind,
};

/// Pairs that are listed.
const MAX_PAIRS: usize = 16;

pub fn lost(log: &Collector, job: &Job) -> Vec<Loss> {
    let mut losses: BTreeMap<FasterPath, Vec<&JobPath>> = BTreeMap::new();
    let is_tcp = log.reasons.contains_key(&Reason::TcpProvider);
    for path in job.communicators.iter().flat_map(|communicator| &communicator.paths) {
        of_path(path, is_tcp)
            .into_iter()
            .for_each(|lost| losses.entry(lost).or_default().push(path));
    }
    if log.reasons.contains_key(&Reason::GdrcopyMissing) {
        losses.entry(FasterPath::Gdrcopy).or_default();
    }
    losses.into_iter().map(|(lost, paths)| loss(lost, &paths, log, job)).collect()
}

/// What variables exclude, if the log shows no path: NCCL's output may lack them.
pub fn excluded(log: &Collector) -> Vec<Loss> {
    let hosts: BTreeSet<&String> = log.processes.iter().map(|(host, _)| host).collect();
    // A communicator of one rank uses no path.
    let is_several = !log.members.iter().any(|member| member.ranks == Some(1));
    let all = [
        (FasterPath::PeerAccess, "P2P", is_several),
        (FasterPath::SharedMemory, "shared memory", is_several),
        (FasterPath::Rdma, "RDMA", hosts.len() > 1),
        (FasterPath::GpuDirect, "GPUDirect RDMA", hosts.len() > 1),
    ];
    // A failure is what the log is about.
    let is_of_nccl = log.is_log() || !log.versions.is_empty();
    let is_about = is_of_nccl && log.paths.is_empty() && !log.has_failed();
    let usable = all.into_iter().filter(|(.., may_use)| is_about && *may_use);
    let found = usable.filter_map(|(lost, name, _)| {
        let excludes = |(variable, values): &(&'static str, Option<&'static [&'static str]>)| {
            let (value, line) = log.settings.get(*variable)?;
            // Nearer or farther, some GPUs may be in reach.
            let values = if *values == DISTANCES { NOWHERE } else { (*values)? };
            values.contains(&value.as_str()).then_some((*variable, value, line))
        };
        // Those of `Rdma` after its first choose a network, which may be as fast.
        let all = match lost {
            FasterPath::PeerAccess => variables(lost),
            _ => variables(lost).get(..1)?,
        };
        let (variable, value, line) = all.iter().find_map(excludes)?;
        Some(Loss {
            faster: lost,
            what: format!("A variable excludes {name}; the log shows no path of ranks."),
            kind: ReasonKind::Variable,
            why: is_set(variable, value, log),
            line: Some(line.clone()),
            allowed: Allowed::Unknown,
            bandwidth: None,
            pair_count: 0,
            pairs: Vec::new(),
        })
    });
    found.collect()
}

/// `is_tcp`: libfabric serves the network by TCP.
fn of_path(path: &JobPath, is_tcp: bool) -> Vec<FasterPath> {
    let is_network = path.transport.starts_with("NET/");
    let is_socket = path.transport == "NET/Socket" || is_tcp && path.transport == "NET/OFI";
    let is_local = path.same_node == Some(true);
    let is_staged = |gdrdma: Option<Gdrdma>| matches!(gdrdma, Some(Gdrdma::No | Gdrdma::Mixed));
    let candidates = [
        (path.transport == "SHM", FasterPath::PeerAccess),
        (is_network && is_local, FasterPath::PeerAccess),
        (is_network && is_local, FasterPath::SharedMemory),
        (is_socket && !is_local, FasterPath::Rdma),
        (
            is_network
                && !is_socket
                && (is_staged(path.gdrdma_send) || is_staged(path.gdrdma_receive)),
            FasterPath::GpuDirect,
        ),
    ];
    candidates.into_iter().filter(|(holds, _)| *holds).map(|(_, lost)| lost).collect()
}

/// Distances that exclude some path. `SYS` excludes none.
const DISTANCES: Option<&[&str]> =
    Some(&["LOC", "NVL", "XGMI", "C2C", "PIX", "PXB", "PXN", "PHB", "0", "1", "2", "3", "4"]);

/// Distances that only a path from a GPU to itself has.
const NOWHERE: &[&str] = &["LOC", "0"];

/// The variables that cause a loss, with the values that do; no value means any.
fn variables(lost: FasterPath) -> &'static [(&'static str, Option<&'static [&'static str]>)] {
    const ON: Option<&[&str]> = Some(&["1", "2"]);
    match lost {
        FasterPath::PeerAccess => &[("NCCL_P2P_DISABLE", ON), ("NCCL_P2P_LEVEL", DISTANCES)],
        FasterPath::SharedMemory => &[("NCCL_SHM_DISABLE", ON)],
        FasterPath::Rdma => &[
            ("NCCL_IB_DISABLE", ON),
            ("NCCL_NET", Some(&["Socket", "socket", "SOCKET"])),
            ("NCCL_NET_PLUGIN", Some(&["none"])),
            ("NCCL_IB_HCA", None),
            ("FI_PROVIDER", Some(&["tcp", "sockets", "tcp;ofi_rxm"])),
        ],
        FasterPath::GpuDirect => &[
            ("NCCL_NET_GDR_LEVEL", DISTANCES),
            ("NCCL_IB_GDR_LEVEL", DISTANCES),
            ("NCCL_NET_GDR_READ", Some(&["0"])),
            ("NCCL_IB_CUDA_SUPPORT", Some(&["0"])),
            ("NCCL_DMABUF_ENABLE", Some(&["0"])),
            ("FI_EFA_USE_DEVICE_RDMA", Some(&["0"])),
        ],
        FasterPath::Gdrcopy => &[],
    }
}

fn reasons(lost: FasterPath) -> &'static [(Reason, ReasonKind, &'static str)] {
    use ReasonKind::{NotLoaded, Topology};
    match lost {
        FasterPath::PeerAccess => &[
            (Reason::NoPeerAccess, Topology, "the driver offers no peer access between GPUs"),
            (
                Reason::PeersTooFar,
                Topology,
                "NCCL judges some GPUs too far apart for P2P, which the driver offers",
            ),
        ],
        FasterPath::SharedMemory => &[],
        FasterPath::Rdma => &[
            (Reason::TcpProvider, NotLoaded, "libfabric chose its TCP provider"),
            (Reason::NoVerbs, NotLoaded, "libibverbs did not load"),
            (Reason::PluginFailed, NotLoaded, "a network plugin did not load or start"),
            (Reason::PluginAbsent, NotLoaded, "the network plugin was not found"),
            (Reason::NoIbDevice, NotLoaded, "NCCL found no RDMA device"),
        ],
        FasterPath::GpuDirect => &[
            (
                Reason::GdrdmaNoModule,
                NotLoaded,
                "the NIC cannot register GPU memory: neither nvidia-peermem nor dma-buf",
            ),
            (
                Reason::GdrdmaNoProvider,
                NotLoaded,
                "libfabric cannot leave CUDA out of its transfers: update it",
            ),
            (Reason::GdrdmaTooFar, Topology, "GPU and NIC are too far apart for NCCL"),
        ],
        FasterPath::Gdrcopy => {
            &[(Reason::GdrcopyMissing, NotLoaded, "the library libgdrapi.so did not load")]
        }
    }
}

fn what(lost: FasterPath) -> &'static str {
    match lost {
        FasterPath::PeerAccess => "Ranks of one node did not use P2P.",
        FasterPath::SharedMemory => "Ranks of one node did not use shared memory.",
        FasterPath::Rdma => "Ranks used TCP sockets, not RDMA.",
        FasterPath::GpuDirect => "RDMA copied through host memory, without GPUDirect RDMA.",
        FasterPath::Gdrcopy => "GDRCopy was requested and not used.",
    }
}

/// The settings with which NCCL's log would say why.
fn missing(lost: FasterPath) -> &'static str {
    match lost {
        FasterPath::PeerAccess | FasterPath::SharedMemory => "INIT,ENV,GRAPH,P2P,SHM",
        FasterPath::Rdma | FasterPath::GpuDirect | FasterPath::Gdrcopy => "INIT,ENV,GRAPH,NET",
    }
}

fn loss(lost: FasterPath, paths: &[&JobPath], log: &Collector, job: &Job) -> Loss {
    let (kind, why, line) =
        by_variable(lost, paths, log).or_else(|| by_line(lost, log)).unwrap_or_else(|| {
            let subsystems = missing(lost);
            let why = format!(
                "the log does not say; NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS={subsystems} would"
            );
            (ReasonKind::Unknown, why, None)
        });
    let allowed = allowed(lost, kind, log, job);
    let bandwidth = match allowed {
        Allowed::No => None,
        Allowed::Yes | Allowed::Unknown => bandwidth(lost, paths, log),
    };
    let pairs = paths.iter().flat_map(|path| &path.pairs).take(MAX_PAIRS);
    Loss {
        faster: lost,
        what: what(lost).to_owned(),
        kind,
        why,
        line,
        allowed,
        bandwidth,
        pair_count: paths.iter().map(|path| path.pair_count).sum(),
        pairs: pairs.cloned().collect(),
    }
}

/// What the log shows of the machine.
fn allowed(lost: FasterPath, kind: ReasonKind, log: &Collector, job: &Job) -> Allowed {
    let has = |reason: Reason| log.reasons.contains_key(&reason);
    let paths = || job.communicators.iter().flat_map(|communicator| &communicator.paths);
    let is_variable = kind == ReasonKind::Variable;
    match lost {
        FasterPath::PeerAccess => {
            let is_offered = has(Reason::PeerAccess)
                || log.gpu_paths.contains("NVL")
                || is_variable && has(Reason::PeersTooFar);
            match (is_offered, has(Reason::NoPeerAccess)) {
                // Nodes differ.
                (true, true) => Allowed::Unknown,
                (true, false) => Allowed::Yes,
                (false, true) => Allowed::No,
                (false, false) if has(Reason::PeersTooFar) => Allowed::No,
                (false, false) => Allowed::Unknown,
            }
        }
        FasterPath::SharedMemory if is_variable => Allowed::Yes,
        FasterPath::Rdma
            if log
                .devices
                .values()
                .any(|names| names.contains("/IB") || names.contains("/RoCE")) =>
        {
            Allowed::Yes
        }
        FasterPath::GpuDirect => {
            let is_used = |path: &JobPath| {
                let ends = [path.gdrdma_send, path.gdrdma_receive];
                ends.iter().any(|end| matches!(end, Some(Gdrdma::Yes | Gdrdma::Mixed)))
            };
            if kind == ReasonKind::Topology {
                Allowed::No
            } else if has(Reason::Gdrdma) || paths().any(is_used) {
                Allowed::Yes
            } else {
                Allowed::Unknown
            }
        }
        // It serves networks, not the paths of one node.
        FasterPath::Gdrcopy if !paths().any(|path| path.transport.starts_with("NET/")) => {
            Allowed::No
        }
        FasterPath::Gdrcopy => Allowed::Yes,
        FasterPath::SharedMemory | FasterPath::Rdma => Allowed::Unknown,
    }
}

/// NCCL's bandwidths of the path that was used and the faster one. Where paths of a kind differ, those with the smaller factor.
fn bandwidth(lost: FasterPath, paths: &[&JobPath], log: &Collector) -> Option<LostBandwidth> {
    let value =
        |end: HopEnd, at: usize| log.bandwidths.get(&end).map(|all| f64::from(all[at]) / 100.0);
    let is_network = paths.iter().all(|path| path.transport.starts_with("NET/"));
    let is_memory = paths.iter().all(|path| path.transport == "SHM");
    let used = match (is_network, is_memory) {
        (true, _) => value(HopEnd::Net, 1)?,
        (_, true) => value(HopEnd::Cpu, 1)?,
        _ => return None,
    };
    let possible = match lost {
        FasterPath::PeerAccess => value(HopEnd::Gpu, 0)?,
        FasterPath::SharedMemory => value(HopEnd::Cpu, 0)?,
        // NCCL rates only the network that it chose.
        FasterPath::Rdma | FasterPath::GpuDirect | FasterPath::Gdrcopy => return None,
    };
    let factor = (possible / used * 10.0).round() / 10.0;
    (used > 0.0 && factor > 1.0).then_some(LostBandwidth { used, possible, factor })
}

fn by_variable(
    lost: FasterPath,
    paths: &[&JobPath],
    log: &Collector,
) -> Option<(ReasonKind, String, Option<Quote>)> {
    let has = |reason: Reason| log.reasons.contains_key(&reason);
    variables(lost).iter().find_map(|(name, values)| {
        let (value, line) = log.settings.get(*name)?;
        let is_possible = match *name {
            // It chooses among devices, which need the library.
            "NCCL_IB_HCA" => !has(Reason::NoVerbs),
            // It is about the sender alone, and the module about all.
            "NCCL_NET_GDR_READ" => paths.iter().all(|path| path.gdrdma_receive != Some(Gdrdma::No)),
            // Distance excludes both ways to register memory.
            "NCCL_DMABUF_ENABLE" => !has(Reason::GdrdmaTooFar),
            _ => true,
        };
        let is_cause = is_possible && values.is_none_or(|values| values.contains(&value.as_str()));
        let why = is_set(name, value, log);
        is_cause.then(|| (ReasonKind::Variable, why, Some(line.clone())))
    })
}

/// Up to 2.22, NCCL writes of NCCL_P2P_DISABLE=1 that the level is LOC.
fn is_set(variable: &str, value: &str, log: &Collector) -> String {
    let minor = |version: &String| version.strip_prefix("2.")?.split('.').next()?.parse().ok();
    let is_older = |version| minor(version).is_none_or(|minor: u32| minor < 23);
    if variable == "NCCL_P2P_LEVEL" && value == "LOC" && log.versions.iter().all(is_older) {
        "NCCL_P2P_DISABLE=1 or NCCL_P2P_LEVEL=LOC is set".to_owned()
    } else {
        format!("{variable}={value} is set")
    }
}

fn by_line(lost: FasterPath, log: &Collector) -> Option<(ReasonKind, String, Option<Quote>)> {
    reasons(lost).iter().find_map(|(reason, kind, why)| {
        let line = log.reasons.get(reason)?;
        // Most machines have no plugin and need none.
        let plugin = log.settings.get("NCCL_NET_PLUGIN").map(|(value, _)| value);
        let why = match (reason, plugin) {
            (Reason::PluginAbsent, None) => return None,
            (Reason::PluginAbsent, Some(plugin)) => format!("{why} (NCCL_NET_PLUGIN={plugin})"),
            _ => (*why).to_owned(),
        };
        Some((*kind, why, Some(line.clone())))
    })
}
