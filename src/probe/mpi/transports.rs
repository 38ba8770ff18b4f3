//! What moves the messages, from the library's own messages, and what would be faster. Pure: `job` reads the messages of Open MPI and UCX.

use std::collections::BTreeSet;

use super::message::RankPair;
use crate::job::{self, Tables};
use crate::model::{MpiTransport, ProbedMpi};

/// Variables that make the libraries say what they choose, unless the user set them.
pub const VERBOSE: [(&str, &str); 6] = [
    ("OMPI_MCA_pml_base_verbose", "10"),
    ("OMPI_MCA_mtl_base_verbose", "10"),
    ("OMPI_MCA_btl_base_verbose", "5"),
    ("UCX_LOG_LEVEL", "info"),
    ("UCX_PROTO_INFO", "y"),
    // Standard output by default.
    ("UCX_LOG_FILE", "stderr"),
];

/// True for a message that only those variables cause.
pub fn is_verbose(line: &str) -> bool {
    const MARKS: [&str; 14] = [
        " UCX  INFO ",
        " UCX  DIAG ",
        "mca: base: ",
        "mca: bml: ",
        "select: ",
        "selected ",
        "mtl:ofi",
        "mtl_ofi",
        "btl:",
        "btl: ",
        "pml_ucx.",
        "common_ucx.",
        "mca_pml_",
        "|  ",
    ];
    let is_table = line.contains("+---") || line.contains("] | ") || line.contains("   | ");
    is_table || MARKS.iter().any(|mark| line.contains(mark))
}

/// The transports between rank 0 and each measured rank.
pub fn transports(lines: &[String], pairs: &[RankPair]) -> Vec<MpiTransport> {
    let mut found = Vec::new();
    for pair in pairs {
        found.extend(btls(lines, *pair));
    }
    if found.is_empty() {
        found.extend(mtl(lines, pairs));
    }
    found.extend(endpoints(lines, pairs));
    found.extend(protocols(lines, pairs));
    found
}

/// The BTLs of ob1 to one rank.
fn btls(lines: &[String], pair: RankPair) -> Option<MpiTransport> {
    let mut names = BTreeSet::new();
    let mut message = String::new();
    for line in lines {
        if let Some(btl) = job::btl(line).filter(|btl| btl.rank == Some(pair.rank)) {
            names.insert(btl.name);
            message = shortened(line);
        }
    }
    (!names.is_empty()).then(|| MpiTransport {
        same_host: pair.same_host,
        gpu: false,
        layer: "ob1".to_owned(),
        names: names.into_iter().collect(),
        message,
    })
}

/// The MTL that cm selected: psm2, ofi.
fn mtl(lines: &[String], pairs: &[RankPair]) -> Vec<MpiTransport> {
    let chosen = lines.iter().filter_map(|line| Some((line, job::selected(line)?)));
    let names =
        chosen.flat_map(|(line, route)| route.transports.into_iter().map(move |name| (line, name)));
    let (cm, mtls): (Vec<_>, Vec<_>) = names.partition(|(_, name)| name == "cm");
    let Some((line, name)) = mtls.first().filter(|_| !cm.is_empty()) else { return Vec::new() };
    let of_pair = |pair: &RankPair| MpiTransport {
        same_host: pair.same_host,
        gpu: false,
        layer: "cm".to_owned(),
        names: vec![name.clone()],
        message: shortened(line),
    };
    pairs.iter().map(of_pair).collect()
}

/// The lanes of UCX for tagged messages.
fn endpoints(lines: &[String], pairs: &[RankPair]) -> Vec<MpiTransport> {
    let mut found: Vec<MpiTransport> = Vec::new();
    for line in lines.iter().filter(|line| line.contains(" UCX  INFO ")) {
        let Some(route) = job::endpoint(line).into_iter().find(|route| route.purpose == "tag")
        else {
            continue;
        };
        let names: BTreeSet<String> = route.transports.into_iter().collect();
        if names.contains("self") {
            continue;
        }
        let same_host =
            route.same_node.unwrap_or_else(|| !names.iter().any(|name| is_network(name)));
        let is_measured = pairs.iter().any(|pair| pair.same_host == same_host)
            // One pair, and a network on one host: it is that pair's.
            || pairs.len() == 1;
        if is_measured && !found.iter().any(|known| known.same_host == same_host) {
            found.push(MpiTransport {
                same_host: match pairs {
                    [only] => only.same_host,
                    _ => same_host,
                },
                gpu: false,
                layer: "ucx".to_owned(),
                names: names.into_iter().collect(),
                message: shortened(line),
            });
        }
    }
    found
}

/// UCX's tables of protocols for messages from GPU memory: all transports of their rows.
fn protocols(lines: &[String], pairs: &[RankPair]) -> Vec<MpiTransport> {
    let mut tables = Tables::default();
    let mut found: Vec<MpiTransport> = Vec::new();
    for line in lines {
        let Some(route) = tables.row(line).map(|row| row.route) else { continue };
        let is_gpu = route.memory.as_deref().is_some_and(|memory| memory.starts_with("cuda"));
        if !is_gpu || route.purpose != "tag" {
            continue;
        }
        let same_host = match pairs {
            [only] => only.same_host,
            _ => route.same_node != Some(false),
        };
        match found.iter_mut().find(|known| known.same_host == same_host) {
            Some(known) => known.names.extend(route.transports),
            None => found.push(MpiTransport {
                same_host,
                gpu: true,
                layer: "ucx".to_owned(),
                names: route.transports,
                message: shortened(line),
            }),
        }
    }
    for transport in &mut found {
        transport.names.sort();
        transport.names.dedup();
    }
    found
}

fn is_network(name: &str) -> bool {
    ["rc", "dc", "ud", "tcp", "srd", "gga"]
        .iter()
        .any(|network| name == *network || name.starts_with(&format!("{network}_")))
}

fn shortened(line: &str) -> String {
    line.trim().chars().take(200).collect()
}

/// What the advice depends on.
pub struct Situation<'a> {
    pub mpi: &'a ProbedMpi,
    /// An RDMA port of this host that is up, as in `mlx5_0:1`.
    pub port: Option<String>,
    /// A GPU was probed.
    pub has_gpu: bool,
    /// Highest bandwidth of GPU memory divided by that of host memory, between the same ranks.
    pub gpu_share: Option<f64>,
}

/// What would be faster, as sentences.
pub fn advice(situation: &Situation<'_>) -> Vec<String> {
    let mut advice = Vec::new();
    let mpi = situation.mpi;
    for transport in mpi.transports.iter().filter(|transport| !transport.gpu) {
        let has = |names: &[&str]| {
            let mut used = transport.names.iter();
            used.any(|name| names.iter().any(|start| name.starts_with(start)))
        };
        let is_tcp = has(&["tcp", "sockets"]);
        match (&situation.port, transport.same_host) {
            (Some(port), false) if is_tcp => advice.push(format!(
                "Messages between hosts go over TCP, although port {port} is up: RDMA would be faster. With Open MPI use --mca pml \
                 ucx; with UCX let UCX_TLS and UCX_NET_DEVICES include it (UCX_TLS=all)."
            )),
            (_, true) if is_tcp => advice.push(
                "Messages on one host go over TCP: shared memory would be faster. With Open MPI let OMPI_MCA_btl include vader (sm \
                 since version 5), with UCX let UCX_TLS include sm."
                    .to_owned(),
            ),
            _ => {}
        }
        if transport.layer == "ucx"
            && transport.same_host
            && has(&["sysv", "posix"])
            && !has(&["cma", "xpmem", "knem"])
        {
            advice.push(
                "Large messages on one host are copied twice: UCX uses neither cma nor xpmem. In a container allow ptrace \
                 (CAP_SYS_PTRACE), or let UCX_TLS include cma."
                    .to_owned(),
            );
        }
    }
    if situation.has_gpu && mpi.takes_gpu == Some(false) {
        advice.push(
            "Until a CUDA-aware library is used, copy GPU memory to pinned host memory, and send that: gdr probe transfer compares both."
                .to_owned(),
        );
    }
    for transport in mpi.transports.iter().filter(|transport| transport.gpu) {
        let has = |name: &str| transport.names.iter().any(|used| used == name);
        if transport.same_host && !has("cuda_ipc") {
            advice.push(
                "GPU memory on one host does not go by cuda_ipc: let UCX_TLS include cuda_ipc, and let the processes see each other's \
                 GPUs (CUDA_VISIBLE_DEVICES, one IPC and PID namespace)."
                    .to_owned(),
            );
        }
        if !transport.same_host && has("cuda_copy") && !has("gdr_copy") {
            advice.push(
                "Small messages of GPU memory are copied by cuda_copy: gdr_copy would be faster. Install libgdrapi, and let UCX_TLS \
                 include gdr_copy."
                    .to_owned(),
            );
        }
    }
    if let Some(share) = situation.gpu_share.filter(|share| *share < 0.5) {
        advice.push(format!(
            "GPU memory moves at {:.0} % of the bandwidth of host memory: the library stages it in small blocks, or copies it twice.",
            share * 100.0
        ));
    }
    advice
}
