//! Queue pairs in memory that this crate allocates, created by DEVX. Each part is in GPU or host memory, as requested.
//!
//! GPU memory is registered by dma-buf, else by nvidia-peermem; if neither works, creation fails with
//! [`Error::GpuQueues`](crate::hca::port::Error::GpuQueues). The CPU accesses it through gdrcopy, like any place of an
//! [`Allocator`](crate::Allocator).

mod create;
mod memory;

pub use create::{Firmware, create};
