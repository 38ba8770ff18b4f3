//! Connections between the nodes of a fleet, in rounds. Rank 0 says which nodes work together; each node serves the others and
//! measures with the ends and the children of `gdr probe rdma`. The schedule comes from outside.

mod coordinate;
mod message;
mod node;

pub use coordinate::{Measured, PairMeasured, Round, Timeouts, coordinate};
pub use message::{Nic, PairFigures};
pub use node::{Node, take_part};
