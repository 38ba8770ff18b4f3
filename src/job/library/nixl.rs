//! NIXL: the backends that an agent has and selects (src/core/nixl_agent.cpp and its Python API), as versions 0.1 to 1.0 write
//! them. Which path a backend takes is in the lines of UCX.

use super::{Route, Statement, failed, has_level, is_fault, is_name, kind_of, placed};
use crate::model::FailureKind;

pub const NAME: &str = "NIXL";

pub fn read(line: &str) -> Vec<Statement> {
    let statement = path(line).map(Statement::Path).or_else(|| failure(line));
    statement.into_iter().collect()
}

/// `Backend UCX was instantiated`, `nixl_agent.cpp:975] Selected backend: UCX`
fn path(line: &str) -> Option<Route> {
    let instantiated = line.split_once("Backend ").and_then(|(_, rest)| {
        rest.split_once(" was instantiated").map(|(name, _)| (name, "backend"))
    });
    let selected =
        line.split_once("Selected backend: ").map(|(_, name)| (name.trim(), "transfers"));
    let (name, purpose) = selected.or(instantiated)?;
    let transports = vec![name.to_owned()];
    is_name(name).then(|| Route { purpose: purpose.to_owned(), transports, ..Route::default() })
}

fn failure(line: &str) -> Option<Statement> {
    // `NIXL transfer failure: handshake_setup_failed | Context: {…}` of vLLM.
    if let Some((_, rest)) = line.split_once("NIXL transfer failure: ") {
        let what = rest.split(['.', ' ']).next().filter(|what| is_name(what))?;
        return Some(failed(FailureKind::Library, &format!("NIXL transfer failure: {what}")));
    }
    let Some(at) = line.find("NIXL_ERR_") else { return other(line) };
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    let name: &str = line[at..].split(|c| !is_part(c)).next()?;
    let kind = match name {
        "NIXL_ERR_REMOTE_DISCONNECT" => FailureKind::ConnectionClosed,
        "NIXL_ERR_BACKEND" | "NIXL_ERR_NOT_SUPPORTED" => FailureKind::Library,
        _ => return None,
    };
    Some(failed(kind, name))
}

/// `E0000 00:00:1762238119.118500 2368740 gpunetio_backend.cpp:512] Failed to …`
fn other(line: &str) -> Option<Statement> {
    let (place, message) = placed(line)?;
    (has_level(place, &['E', 'F']) && is_fault(message))
        .then(|| failed(kind_of(message), &format!("NIXL: {message}")))
}
