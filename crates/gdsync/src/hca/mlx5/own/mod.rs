//! Queue pairs in memory of our own: the NIC's firmware makes them by DEVX, with what was asked for in GPU memory there, and the rest in
//! host memory.
//!
//! GPU memory is named to the NIC by a dma-buf, or else by its address (nvidia-peermem); a NIC that takes neither gets none
//! ([`Error::GpuQueues`](crate::hca::port::Error::GpuQueues)), and nothing falls back by itself. The CPU reaches it by gdrcopy, as any
//! place of an [`Allocator`](crate::Allocator).

mod create;
mod memory;

pub(super) use create::create;
