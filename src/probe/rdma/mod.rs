//! `gdr probe rdma`: GPU memory over the network, between two processes.

pub mod rendezvous;
