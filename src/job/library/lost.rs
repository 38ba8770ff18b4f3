//! Paths of UCX that are slower than another one that it has.

use std::collections::BTreeMap;

use super::{LibraryLog, Route, ucx};
use crate::model::{Allowed, FasterPath, Loss, Quote, ReasonKind};

/// Transports of one node.
const OF_NODE: [&str; 6] = ["sysv", "posix", "cma", "xpmem", "knem", "cuda_ipc"];

pub fn lost(
    libraries: &BTreeMap<&'static str, LibraryLog>,
    settings: &BTreeMap<String, (String, Quote)>,
) -> Vec<Loss> {
    let routes = libraries.get(ucx::NAME).map(|log| &log.routes);
    let mut found: BTreeMap<FasterPath, &'static str> = BTreeMap::new();
    for route in routes.into_iter().flat_map(BTreeMap::keys) {
        found.extend(of_route(route));
    }
    found.into_iter().map(|(faster, what)| loss(faster, what, settings)).collect()
}

/// What a path lost, if the log says on which nodes its ends are.
fn of_route(route: &Route) -> Option<(FasterPath, &'static str)> {
    let has = |names: &[&str]| {
        route.transports.iter().any(|used| names.iter().any(|name| used.starts_with(name)))
    };
    let is_gpu = route.memory.as_deref().is_some_and(|memory| memory.contains("cuda"));
    if !route.same_node? {
        let is_tcp = has(&["tcp"]) && !has(&["rc", "dc", "ud", "srd", "gga"]);
        is_tcp.then_some((FasterPath::Rdma, "UCX sends between nodes by TCP."))
    } else if is_gpu && !has(&["cuda_ipc"]) {
        Some((FasterPath::PeerAccess, "UCX moves GPU memory of one node without cuda_ipc."))
    } else {
        let is_tcp = has(&["tcp"]) && !has(&OF_NODE);
        is_tcp.then_some((FasterPath::SharedMemory, "UCX sends on one node by TCP."))
    }
}

fn loss(faster: FasterPath, what: &str, settings: &BTreeMap<String, (String, Quote)>) -> Loss {
    let set = ["UCX_TLS", "UCX_NET_DEVICES"].iter().find_map(|name| {
        let (value, line) = settings.get(*name)?;
        excludes(faster, name, value).then(|| (format!("{name}={value} is set"), line.clone()))
    });
    let (kind, why, line) = match set {
        Some((why, line)) => (ReasonKind::Variable, why, Some(line)),
        None => {
            let why = "the log does not say; ucx_info -d shows the transports that UCX has here, UCX_LOG_LEVEL=info its variables";
            (ReasonKind::Unknown, why.to_owned(), None)
        }
    };
    Loss {
        faster,
        what: what.to_owned(),
        kind,
        why,
        line,
        allowed: Allowed::Unknown,
        bandwidth: None,
        pair_count: 0,
        pairs: Vec::new(),
    }
}

/// True if a value leaves out all transports of the faster path.
fn excludes(faster: FasterPath, name: &str, value: &str) -> bool {
    let words: Vec<&str> = value.trim_start_matches('^').split(',').collect();
    let names: &[&str] = match faster {
        FasterPath::Rdma => &["rc", "dc", "ud", "ib", "all", "rc_x", "srd"],
        FasterPath::PeerAccess => &["cuda_ipc", "cuda", "all"],
        _ => &["sm", "shm", "mm", "sysv", "posix", "cma", "xpmem", "knem", "all"],
    };
    let is_named = words.iter().any(|word| {
        let word = word.split(':').next().unwrap_or(word);
        names.contains(&word) || (faster == FasterPath::Rdma && is_rdma(word))
    });
    match name {
        "UCX_TLS" if value.starts_with('^') => is_named,
        "UCX_TLS" => !is_named,
        // RDMA devices have a port: `mlx5_0:1`.
        _ => {
            faster == FasterPath::Rdma
                && value != "all"
                && !words.iter().any(|word| word.contains(':'))
        }
    }
}

fn is_rdma(word: &str) -> bool {
    ["rc_", "dc_", "ud_"].iter().any(|start| word.starts_with(start))
}
