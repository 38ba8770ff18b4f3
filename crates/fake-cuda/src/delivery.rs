//! Copy faults from the machine file.

use gpu::sim::execution::Flaw;
use serde_json::Value;

use crate::machine::pair;
use crate::memory::{Block, Kind};

/// Fault of a copy between two blocks. Copies within a GPU have none.
pub fn of_copy(from: &Block, to: &Block, bytes: usize) -> Option<Flaw> {
    let is_far = from.gpu != to.gpu && (from.kind, to.kind) == (Kind::Device, Kind::Device);
    let value = is_far.then(|| pair(from.gpu, to.gpu, "copies")).flatten();
    match value.and_then(Value::as_str) {
        Some("zero") => Some(Flaw::Zero(0..bytes)),
        Some("drop") => Some(Flaw::Drop(0..bytes)),
        Some("flip") => Some(Flaw::Flip(bytes / 2)),
        _ => None,
    }
}
