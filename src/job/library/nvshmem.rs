//! NVSHMEM: the transports that it started (`NVSHMEM_DEBUG=INFO`, src/host/transport/transport.cpp) and why one did not start, as
//! versions 2.10 to 3.4 write them.

use super::{Route, Statement, failed, is_name};
use crate::job::known;
use crate::model::FailureKind;

pub const NAME: &str = "NVSHMEM";

/// Texts of errors. Later ones follow from the first.
const ERRORS: [&str; 10] = [
    "init failed for transport: ",
    "Unable to initialize any transports",
    "is not accessible, exiting",
    "no active IB device that supports GPU-initiated",
    "is not enumerated as an mlx5 device",
    "NULL value",
    "non-zero status: ",
    "neither nv_peer_mem, or nvidia_peermem detected",
    "nvshmem initialization failed, exiting",
    "NVSHMEM API called before NVSHMEM initialization has completed",
];

pub fn read(line: &str) -> Vec<Statement> {
    let version = line.split_once("NVSHMEM v").map(|(_, rest)| rest.split([' ', ',']).next());
    if let Some(Some(version)) = version
        && version.starts_with(|c: char| c.is_ascii_digit())
    {
        return vec![Statement::Version(version.to_owned())];
    }
    if let Some(route) = path(line) {
        return vec![Statement::Path(route)];
    }
    failure(line).into_iter().collect()
}

fn path(line: &str) -> Option<Route> {
    if let Some((_, rest)) = line.split_once("Successfully initialized the transport: ") {
        let (name, more) = rest.split_once(['.', ' ']).unwrap_or((rest, ""));
        let name = name.trim();
        // `libfabric` and `ucx` are other libraries' names.
        let name = if name.starts_with("ib") { name.to_uppercase() } else { name.to_owned() };
        let purpose = if more.contains("device-side") { "from GPUs" } else { "other PEs" };
        let transports = vec![name.clone()];
        let route = Route { purpose: purpose.to_owned(), transports, ..Route::default() };
        return is_name(&name).then_some(route);
    }
    if let Some((_, list)) = line.split_once("NVSHMEM INFO P2P list: ") {
        // The process itself is one of them.
        let is_list = list.split_whitespace().all(|word| word.parse::<u32>().is_ok());
        let has_peer = list.split_whitespace().count() > 1;
        return (is_list && has_peer).then(|| Route {
            purpose: "PEs in reach".to_owned(),
            transports: vec!["P2P".to_owned()],
            ..Route::default()
        });
    }
    let (_, rest) = line.split_once("Selected provider ")?;
    let (provider, _) = rest.split_once(", fabric ")?;
    let nic = rest.split_once(", nic ").and_then(|(_, rest)| rest.split(',').next());
    Some(Route {
        purpose: "other PEs".to_owned(),
        transports: vec!["libfabric".to_owned()],
        devices: nic.map(|nic| vec![nic.trim().to_owned()]).unwrap_or_default(),
        protocol: Some(provider.to_owned()),
        ..Route::default()
    })
}

fn failure(line: &str) -> Option<Statement> {
    // Its bootstrap has NCCL's sockets.
    if line.contains("ncclsocket_socket.cpp:")
        && let Some(kind) = known::kind(line)
    {
        let message = line.rsplit_once(": socket").map_or(line, |(_, message)| message);
        return Some(failed(kind, &format!("in the bootstrap: socket{message}")));
    }
    let at = ERRORS.iter().filter_map(|text| line.find(text)).min()?;
    // `…/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA`
    let head = &line[..at];
    let start = head.rfind(": ").map_or(0, |colon| colon + 2);
    // `…/ibgda.cpp 4820 no active IB device …`
    let number = head.rfind(".cpp ").map_or(0, |dot| dot + ".cpp ".len());
    let number = number + head[number..].bytes().take_while(u8::is_ascii_digit).count();
    let message = line.get(start.max(number)..)?.trim_start();
    let is_own = line.contains("nvshmem") || line.contains("NVSHMEM");
    is_own.then(|| failed(FailureKind::Library, &format!("NVSHMEM: {message}")))
}
