//! GPUDirect Async: a CUDA stream sends, and waits for what was sent or received, without the CPU.
//!
//! The CPU writes WQEs ahead of time. A stream sends by writing two words (doorbell record and
//! doorbell register) and receives by waiting for one bit of a CQE. Modules, lowest first:
//!
//! - `wire`: the layouts of mlx5's entries and the counting of its queues. Bytes in, values out; it knows nobody.
//! - `place`: memory that both the CPU and the GPU reach, where queues lie and words are watched.
//! - `lower`, `cpu`: memory operations as a GPU's streams support them, or done by the CPU with the same meaning.
//! - `queue`: the software's side of send, receive and completion queues in given places.
//! - `hca`: who is behind the queues. `sim` is an HCA in software that reads real doorbells, executes real entries against
//!   registered memory and writes real completions; `mlx5` a NIC; `proxy` a CPU thread that posts to any verbs device.
//!
//! hca → queue → wire, place; program → queue, lower, cpu. Nothing points back, and no layout is written down twice: the software HCA
//! reads with the same `wire` that queues write with, and `wire` is compared with rdma-core's own provider, byte for byte.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod cpu;
mod error;
pub mod hca;
pub mod lower;
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
