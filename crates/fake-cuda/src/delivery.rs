//! What arrives of a copy: the bytes, or what the machine file has instead.

use gpu_sim::Flaw;
use serde_json::Value;

use crate::machine::{MACHINE, pair};
use crate::memory::{Block, Kind};

/// Copies to or from the host that are no longer arrive as they are: they are results.
const RESULT: usize = 64;

/// What is wrong with a copy between two blocks.
pub fn of_copy(from: &Block, to: &Block, bytes: usize) -> Option<Flaw> {
    match (from.kind, to.kind) {
        (Kind::Device, Kind::Device) => between(from, to, "copies", bytes),
        (Kind::Device, _) => of_download(from, bytes),
        (_, Kind::Device) => of_upload(to, bytes),
        _ => None,
    }
}

/// With a kernel's copy.
pub fn of_kernel(from: &Block, to: &Block, bytes: usize) -> Option<Flaw> {
    match (from.kind, to.kind) {
        (Kind::Device, Kind::Device) => between(from, to, "kernel_copies", bytes),
        _ => None,
    }
}

/// With a copy from the host.
pub fn of_upload(to: &Block, bytes: usize) -> Option<Flaw> {
    named(
        MACHINE.gpu(to.gpu, "uploads").filter(|_| bytes > RESULT),
        bytes,
    )
}

/// With a copy to the host.
pub fn of_download(from: &Block, bytes: usize) -> Option<Flaw> {
    named(
        MACHINE
            .gpu(from.gpu, "downloads")
            .filter(|_| bytes > RESULT),
        bytes,
    )
}

/// A GPU's own memory is sound.
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
