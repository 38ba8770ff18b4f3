//! `gdr probe p2p`: GPUDirect v2. Copies and kernels of each GPU that reach each other one's memory, with peer access and
//! without, alone and all at once; every direction verified.

mod child;
mod cluster;
mod integrity;
mod many;
mod pair;
mod parent;
mod plan;
mod task;
#[cfg(test)]
mod tests;

pub use parent::Options;
pub use task::Task;
