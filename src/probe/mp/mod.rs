//! `gdr probe mp`: messages, puts and gets between two ranks of the crate `mp`, by the CPU, by streams and by kernels, on one machine or
//! two. Every byte is verified. Where an MPI is installed, its own figures stand beside them.
//!
//! Each rank is a child. The client chooses the steps and measures; the server follows.

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

pub use mpi::{MpiFigures, launched};
pub use parent::{Hca, Options};
pub use task::Task;
