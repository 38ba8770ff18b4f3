//! `gdr probe rdma`: memory that a NIC moves, verified where it arrived, and measured as perftest measures.
//!
//! Two ends each have a NIC's port, memory under test and a connection, and agree over a [`channel`](super::channel) on each step. One end
//! is the client: it chooses the steps and reports the results. The ends are two threads of one child, on one port or two, or
//! two children on two machines, whose parents relay their messages.

pub mod across;
mod agree;
mod arguments;
mod child;
mod client;
mod comparison;
mod connected;
mod control;
mod counters;
mod curve;
mod curve_plan;
mod device;
mod end;
pub mod fleet;
mod kind;
mod memory;
mod memory_paths;
mod nodes;
mod on_demand;
mod options;
mod packets;
mod paging;
mod pairs;
mod parent;
mod peer;
mod perftest;
mod ping_pong;
mod plan;
mod purpose;
mod queue_pair;
mod server;
mod settings;
mod srd;
mod staged;
mod stream;
mod task;
mod test_case;
#[cfg(test)]
mod tests;
mod together;

pub use arguments::{NicArgs, RdmaArgs, RdmaProbe};
pub use curve::Curve;
pub use memory::Store;
pub use options::{MemoryKind, Named, Options, RemoteEnd};
pub use pairs::{port_of, served};
pub use peer::PeerArgs;
pub use settings::{FIRST_SOURCE_PORT, Settings};
pub use task::{MemoryPath, Port, Task};
pub use together::TogetherTask;
