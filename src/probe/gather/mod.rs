//! The same work on every node of a launcher, and its results on rank 0: Slurm, an mpirun, a Kubernetes Indexed Job. No process
//! stays behind, and the port of rank 0 closes when all nodes have arrived.

mod collect;
mod deliver;
mod message;
mod place;
#[cfg(test)]
mod tests;

pub use collect::{Collected, Waits, collect};
pub use deliver::deliver;
pub use message::{Message, Outcome};
pub use place::{NodePlace, Nodes, PlaceError, from_environment};
