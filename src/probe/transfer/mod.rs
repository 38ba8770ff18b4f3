//! `gdr probe transfer`: GPU memory to GPU memory in each way that GPUDirect's versions have, in one figure.
//!
//! The ends, queue pairs and copies are those of `probe rdma`, one connection for each curve; GPUDirect v2 is `probe p2p` between two
//! GPUs of this machine. Nothing here moves data.

mod arguments;
mod parent;

pub use arguments::TransferProbe;
