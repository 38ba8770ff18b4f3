//! `gdr probe mp`: messages, puts and gets between two ranks of the crate `mp`, by the CPU, by streams and by kernels, on one machine or
//! two. Every byte is verified. Where an MPI is installed, its own figures stand beside them.
//!
//! Each rank is a child. The client chooses the steps and measures; the server follows.

mod arguments;
mod child;
mod client;
mod drive;
mod memory;
mod mpi;
mod parent;
mod plan;
mod server;
mod session;
mod talk;
mod task;

pub use arguments::MpProbe;
pub use task::Task;
