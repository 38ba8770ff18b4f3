//! `gdr probe host`: GPUDirect v1. Copies between host and GPU with each kind of host memory, staged copies without GPUDirect, and
//! the chunked pipeline of MPI libraries; each direction is verified.

mod arguments;
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

pub use arguments::HostProbe;
pub use task::Task;
