//! Queue pairs in memory of our own: the card's firmware makes them by DEVX, with what was asked for in GPU memory there, and the rest in
//! host memory.
//!
//! GPU memory is named to the card by a dma-buf, or else by its address (nvidia-peermem); a card that takes neither gets none
//! ([`Error::GpuQueues`](crate::hca::port::Error::GpuQueues)), and nothing falls back by itself. The CPU reaches it by gdrcopy, as any
//! place of a [`Supply`](crate::Supply).

mod create;
mod memory;

pub(super) use create::create;
