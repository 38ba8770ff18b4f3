//! `gdr probe p2p`: GPUDirect v2. Copy engines and kernels of each GPU access the memory of every other GPU, with and without peer
//! access, one pair at a time and all together; each direction is verified.

mod arguments;
mod child;
mod cluster;
mod concurrent;
mod curve;
mod integrity;
mod pair;
mod parent;
mod plan;
mod task;
#[cfg(test)]
mod tests;

pub use arguments::P2pProbe;
pub use parent::{Options, curve};
pub use task::Task;
