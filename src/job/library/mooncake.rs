//! Mooncake's transfer engine: the transport that it installed, its NICs, and why one failed (mooncake-transfer-engine/src), in
//! lines of glog: `I20260203 17:42:09.400249 3720678 rdma_context.cpp:594] …`.

use super::{Route, Statement, failed, has_level, is_fault, is_name, kind_of, placed};
use crate::model::FailureKind;

pub const NAME: &str = "Mooncake";

/// Texts of its choice of a transport.
const TRANSPORTS: [(&str, &str); 5] = [
    ("Using RDMA transport", "RDMA"),
    ("installTransport, type=rdma", "RDMA"),
    ("Using TCP transport", "TCP"),
    ("using TCP transport only", "TCP"),
    ("Using Intra-Node NVLink transport", "NVLink"),
];

/// Texts of errors after which the engine does not go on.
const ERRORS: [&str; 16] = [
    " encountered an ASIO exception",
    "Session::writeBody failed",
    "Session::readBody failed",
    "ocal segment descriptor not found",
    "No available RNIC",
    "cannot initialize RDMA resources",
    "Failed to install",
    "No suitable GID found",
    "Failed to open device",
    "Failed to retrieve segment descriptor",
    "Failed to modify QP to ",
    // As versions up to 0.3 write it.
    "Failed to modity QP to ",
    "Cannot make connection for endpoint",
    "Context is not active: ",
    "Put operation failed with error: TRANSFER_FAIL",
    "egister memory",
];

pub fn read(line: &str) -> Vec<Statement> {
    let Some((place, message)) = placed(line) else { return Vec::new() };
    let statement = device(message).or_else(|| transport(message)).map(Statement::Path);
    statement.or_else(|| failure(place, message)).into_iter().collect()
}

/// `RDMA device: mlx5_9, LID: 0, GID: …`
fn device(message: &str) -> Option<Route> {
    let (name, _) = message.strip_prefix("RDMA device: ")?.split_once(',')?;
    let (transports, devices) = (vec!["RDMA".to_owned()], vec![name.to_owned()]);
    let purpose = "transfers".to_owned();
    is_name(name).then(|| Route { purpose, transports, devices, ..Route::default() })
}

fn transport(message: &str) -> Option<Route> {
    let (_, name) = TRANSPORTS.iter().find(|(text, _)| message.contains(text))?;
    let same_node = (*name == "NVLink").then_some(true);
    let transports = vec![(*name).to_owned()];
    Some(Route { same_node, purpose: "transfers".to_owned(), transports, ..Route::default() })
}

fn failure(place: &str, message: &str) -> Option<Statement> {
    let is_error = has_level(place, &['E', 'F', 'W']);
    if let Some((_, rest)) = message.split_once("Process failed for slice (").filter(|_| is_error) {
        return completion(rest);
    }
    let Some(text) = ERRORS.iter().find(|text| message.contains(*text)).filter(|_| is_error) else {
        return other(place, message);
    };
    let kind = match *text {
        "egister memory" => FailureKind::MemoryRegistration,
        "Failed to modify QP to " | "Failed to modity QP to " => FailureKind::QueuePair,
        "Cannot make connection for endpoint" => FailureKind::ConnectionFailed,
        " encountered an ASIO exception" => {
            let error = message.split_once("xception: ").map_or(message, |(_, error)| error);
            return Some(failed(FailureKind::ConnectionFailed, &format!("Mooncake: {error}")));
        }
        _ => FailureKind::Library,
    };
    Some(failed(kind, &format!("Mooncake: {message}")))
}

/// An error that is not in the list. Its RPC (async_simple, ylt) has a level of its own: `ERROR [924] [coro_rpc_client.hpp:954] …`.
fn other(place: &str, message: &str) -> Option<Statement> {
    let is_rpc = place.ends_with("[coro_connection") || place.ends_with("[coro_rpc_client");
    let is_late = message.ends_with("failed: transfer timeout (software)");
    let is_error = is_rpc || is_late || has_level(place, &['E', 'F']);
    (is_error && is_fault(message))
        .then(|| failed(kind_of(message), &format!("Mooncake: {message}")))
}

/// `Worker: Process failed for slice (opcode: 1, …, local_nic: mlx5_9, peer_nic: 192.0.2.7:15867@mlx5_9, …): transport retry counter exceeded`: after
/// the first one the queue pair flushes what waits.
fn completion(slice: &str) -> Option<Statement> {
    let (about, status) = slice.rsplit_once("): ")?;
    let value = |name: &str| {
        about.split_once(name).and_then(|(_, rest)| rest.split(',').next()).map(str::trim)
    };
    let mut detail = format!("Mooncake: {}", status.trim());
    for (name, key) in [("NIC", "local_nic: "), ("peer", "peer_nic: ")] {
        detail = value(key).map_or(detail.clone(), |value| format!("{detail}, {name} {value}"));
    }
    (!status.contains("flushed")).then(|| failed(FailureKind::Completion, &detail))
}
