//! `gdr probe mpi`: the MPI library of the launcher, whether it takes GPU pointers, what its messages take for host and GPU memory,
//! and which transports it chose.
//!
//! Each rank is a gdr that a launcher started, with children of its own. One transfers GPU memory to itself, apart from the other
//! ranks, and may crash: a library that is not CUDA-aware does. Another one is the rank in MPI. Rank 0 chooses the steps and reports
//! the results; waiting for a rank always ends.

mod arguments;
mod buffer;
mod child;
mod client;
mod library;
mod message;
mod opened;
mod parent;
mod server;
mod task;
#[cfg(test)]
mod tests;
mod transports;
mod trial;
mod world;

pub use arguments::MpiProbe;
pub use task::Task;
