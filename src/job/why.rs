//! Why a path was slower than another one that NCCL has: a variable, what was not loaded, the topology, or "the log does not
//! say". A reason is a line of the log.

use super::collector::Collector;
use super::message::Reason;
use crate::model::{Gdrdma, Job, JobPath, Loss, Quote, ReasonKind};

/// Paths that are slower than another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lost {
    /// Shared memory on one node, in place of P2P.
    PeerAccess,
    /// A network on one node, in place of P2P and shared memory.
    SharedMemory,
    /// Sockets, in place of RDMA.
    Rdma,
    /// RDMA from host memory.
    GpuDirect,
    Gdrcopy,
}

pub fn lost(log: &Collector, job: &Job) -> Vec<Loss> {
    let paths = || job.communicators.iter().flat_map(|communicator| &communicator.paths);
    let mut losses: Vec<Lost> = paths().flat_map(of_path).collect();
    if log.reasons.contains_key(&Reason::GdrcopyMissing) {
        losses.push(Lost::Gdrcopy);
    }
    losses.sort_unstable();
    losses.dedup();
    losses.into_iter().map(|lost| loss(lost, log)).collect()
}

fn of_path(path: &JobPath) -> Vec<Lost> {
    let is_network = path.transport.starts_with("NET/");
    let is_socket = path.transport == "NET/Socket";
    let is_local = path.same_node == Some(true);
    let is_staged = |gdrdma: Option<Gdrdma>| matches!(gdrdma, Some(Gdrdma::No | Gdrdma::Mixed));
    let candidates = [
        (path.transport == "SHM", Lost::PeerAccess),
        (is_network && is_local, Lost::PeerAccess),
        (is_network && is_local, Lost::SharedMemory),
        (is_socket && !is_local, Lost::Rdma),
        (
            is_network
                && !is_socket
                && (is_staged(path.gdrdma_send) || is_staged(path.gdrdma_receive)),
            Lost::GpuDirect,
        ),
    ];
    candidates.into_iter().filter(|(holds, _)| *holds).map(|(_, lost)| lost).collect()
}

/// The variables that cause a loss, with the values that do; no value means any.
fn variables(lost: Lost) -> &'static [(&'static str, Option<&'static [&'static str]>)] {
    const ON: Option<&[&str]> = Some(&["1", "2"]);
    match lost {
        Lost::PeerAccess => &[("NCCL_P2P_DISABLE", ON), ("NCCL_P2P_LEVEL", None)],
        Lost::SharedMemory => &[("NCCL_SHM_DISABLE", ON)],
        Lost::Rdma => &[
            ("NCCL_IB_DISABLE", ON),
            ("NCCL_NET", Some(&["Socket", "socket", "SOCKET"])),
            ("NCCL_NET_PLUGIN", Some(&["none"])),
            ("NCCL_IB_HCA", None),
        ],
        Lost::GpuDirect => &[("NCCL_NET_GDR_LEVEL", None), ("NCCL_NET_GDR_READ", Some(&["0"]))],
        Lost::Gdrcopy => &[],
    }
}

fn reasons(lost: Lost) -> &'static [(Reason, ReasonKind, &'static str)] {
    use ReasonKind::{NotLoaded, Topology};
    match lost {
        Lost::PeerAccess => &[
            (Reason::NoPeerAccess, Topology, "the driver offers no peer access between GPUs"),
            (
                Reason::PeersTooFar,
                Topology,
                "NCCL judges some GPUs too far apart for P2P, which the driver offers",
            ),
        ],
        Lost::SharedMemory => &[],
        Lost::Rdma => &[
            (Reason::NoVerbs, NotLoaded, "libibverbs did not load"),
            (Reason::PluginFailed, NotLoaded, "a network plugin did not start"),
            (Reason::NoIbDevice, NotLoaded, "NCCL found no RDMA device"),
        ],
        Lost::GpuDirect => &[
            (
                Reason::GdrdmaNoModule,
                NotLoaded,
                "the NIC cannot register GPU memory: neither nvidia-peermem nor dma-buf",
            ),
            (Reason::GdrdmaTooFar, Topology, "GPU and NIC are too far apart for NCCL"),
        ],
        Lost::Gdrcopy => {
            &[(Reason::GdrcopyMissing, NotLoaded, "the library libgdrapi.so did not load")]
        }
    }
}

fn what(lost: Lost) -> &'static str {
    match lost {
        Lost::PeerAccess => "Ranks of one node did not use P2P.",
        Lost::SharedMemory => "Ranks of one node did not use shared memory.",
        Lost::Rdma => "Ranks used TCP sockets, not RDMA.",
        Lost::GpuDirect => "RDMA copied through host memory, without GPUDirect RDMA.",
        Lost::Gdrcopy => "GDRCopy was asked for and not used.",
    }
}

/// The settings with which NCCL's log would say why.
fn missing(lost: Lost) -> &'static str {
    match lost {
        Lost::PeerAccess | Lost::SharedMemory => "INIT,ENV,GRAPH,P2P,SHM",
        Lost::Rdma | Lost::GpuDirect | Lost::Gdrcopy => "INIT,ENV,GRAPH,NET",
    }
}

fn loss(lost: Lost, log: &Collector) -> Loss {
    let (kind, why, line) =
        by_variable(lost, log).or_else(|| by_line(lost, log)).unwrap_or_else(|| {
            let subsystems = missing(lost);
            let why = format!(
                "the log does not say; NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS={subsystems} would"
            );
            (ReasonKind::Unknown, why, None)
        });
    Loss { what: what(lost).to_owned(), kind, why, line }
}

fn by_variable(lost: Lost, log: &Collector) -> Option<(ReasonKind, String, Option<Quote>)> {
    variables(lost).iter().find_map(|(name, values)| {
        let (value, line) = log.settings.get(*name)?;
        let is_cause = values.is_none_or(|values| values.contains(&value.as_str()));
        let why = format!("{name}={value} is set");
        is_cause.then(|| (ReasonKind::Variable, why, Some(line.clone())))
    })
}

fn by_line(lost: Lost, log: &Collector) -> Option<(ReasonKind, String, Option<Quote>)> {
    reasons(lost).iter().find_map(|(reason, kind, why)| {
        let line = log.reasons.get(reason)?;
        Some((*kind, (*why).to_owned(), Some(line.clone())))
    })
}
