//! Snapshots as documents: masking private data, and comparing two machines fact by fact. Pure.

mod diff;
mod mask;

pub use diff::diff;
pub use mask::{Known, Masks, mask};
