//! Copy faults from the machine file.

use gpu_sim::Flaw;
use serde_json::Value;

use crate::machine::{MACHINE, pair};
use crate::memory::{Block, Kind};

/// Host copies up to this many bytes are results and never faulty.
const RESULT: usize = 64;

/// Fault of a copy between two blocks.
pub fn of_copy(from: &Block, to: &Block, bytes: usize) -> Option<Flaw> {
    match (from.kind, to.kind) {
        (Kind::Device, Kind::Device) => between(from, to, "copies", bytes),
        (Kind::Device, _) => of_download(from, bytes),
        (_, Kind::Device) => of_upload(to, bytes),
        _ => None,
    }
}

/// Fault of a kernel's copy.
pub fn of_kernel(from: &Block, to: &Block, bytes: usize) -> Option<Flaw> {
    match (from.kind, to.kind) {
        (Kind::Device, Kind::Device) => between(from, to, "kernel_copies", bytes),
        _ => None,
    }
}

/// Fault of a copy from the host.
pub fn of_upload(to: &Block, bytes: usize) -> Option<Flaw> {
    named(
        MACHINE.gpu(to.gpu, "uploads").filter(|_| bytes > RESULT),
        bytes,
    )
}

/// Fault of a copy to the host.
pub fn of_download(from: &Block, bytes: usize) -> Option<Flaw> {
    named(
        MACHINE
            .gpu(from.gpu, "downloads")
            .filter(|_| bytes > RESULT),
        bytes,
    )
}

/// Copies within a GPU have no faults.
fn between(from: &Block, to: &Block, key: &str, bytes: usize) -> Option<Flaw> {
    let is_far = from.gpu != to.gpu;
    named(is_far.then(|| pair(from.gpu, to.gpu, key)).flatten(), bytes)
}

fn named(name: Option<&Value>, bytes: usize) -> Option<Flaw> {
    match name.and_then(Value::as_str) {
        Some("zero") => Some(Flaw::Zero(0..bytes)),
        Some("drop") => Some(Flaw::Drop(0..bytes)),
        Some("flip") => Some(Flaw::Flip(bytes / 2)),
        _ => None,
    }
}
