//! The engine of the simulated driver: memory, copies, dma-bufs, kernels, events, peers, words that streams write and wait for, and how it goes wrong where it is told to.

mod dmabuf;
mod driver;
mod misbehaviour;
mod operations;
mod work;
