//! The simulated driver: memory, copies, dma-bufs, kernels, events, peers, stream memory
//! operations, and injected failures.

mod dmabuf;
mod driver;
mod misbehaviour;
mod operations;
mod work;
