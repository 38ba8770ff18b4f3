//! `gdr probe host`: GPUDirect v1. Copies between host and GPU by every kind of host memory, staged copies without it, and the
//! pipeline of MPI libraries; every direction verified.

mod child;
mod integrity;
mod kernels;
mod links;
mod parent;
mod plan;
mod session;
mod staged;
mod task;
#[cfg(test)]
mod tests;
mod unified;

pub use parent::Options;
pub use task::Task;
