//! GPUDirect Async: a CUDA stream sends, and waits for what was sent or received, without the CPU.
//!
//! A NIC's queues are memory: work queue entries that the CPU writes ahead, a doorbell record and a doorbell register that say
//! how far they go, completion entries that the NIC writes. So a stream that writes two words sends, and one that waits for
//! a bit of a word has received. What stands here, from below:
//!
//! - `wire`: the layouts of mlx5's entries and the counting of its queues. Bytes in, values out; it knows nobody.
//! - `place`: memory that both the CPU and the GPU reach, where queues lie and words are watched.
//! - `descriptor`: what is done in order (write, wait, barrier, flush), by a stream in few batches or by the CPU with the same meaning.
//! - `queue`: the software's side of send, receive and completion queues in given places.
//! - `hca`: who is behind the queues. `sim` is an HCA in software that reads real doorbells, executes real entries against
//!   registered memory and writes real completions; `mlx5` a NIC; `proxy` a CPU thread that posts to any verbs device.
//!
//! hca → queue → wire, place; descriptor → place. Nothing points back, and no layout is written down twice: the software HCA
//! reads with the same `wire` that queues write with, and `wire` is compared with rdma-core's own provider, byte for byte.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod cpu;
pub mod descriptor;
mod error;
pub mod hca;
mod place;
mod program;
pub mod queue;
mod watchdog;
pub mod wire;

pub use error::Error;
use place::Whole;
pub use place::{Allocator, MemoryLocation, Pages, Place};
pub use program::Program;
pub use watchdog::{Guard, Released, Watchdog, Watched};
