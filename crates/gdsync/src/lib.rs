//! GPUDirect Async: a CUDA stream sends, and waits for what was sent or received, without the CPU.
//!
//! The CPU writes WQEs ahead of time. A stream sends by writing two words (doorbell record and
//! doorbell register) and receives by waiting for one bit of a CQE. Modules, lowest first:
//!
//! - `wire`: the layouts of mlx5's WQEs and CQEs, and the index arithmetic of its queues. It depends on no other module.
//! - `place`: memory that both the CPU and the GPU can access. It holds queues and the words streams poll.
//! - `lower`, `cpu`: memory operations as a GPU's streams support them, and the same executed by the CPU.
//! - `faster`: which memory a stream polls faster.
//! - `queue`: the software's part of send, receive and completion queues.
//! - `kernel`: a queue pair whose WQEs, doorbells and CQEs a kernel handles.
//! - `hca`: what executes the queues. `sim` is an HCA in software, `mlx5` a NIC, `proxy` a CPU thread that posts to any
//!   verbs device.
//!
//! hca → queue → wire, place; program → queue, lower, cpu. Each layout exists once: the simulated HCA reads with the `wire` that
//! queues write with. Tests compare `wire` byte for byte with rdma-core's mlx5 provider.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod cpu;
mod error;
mod faster;
pub mod hca;
pub mod kernel;
pub mod lower;
mod place;
mod program;
pub mod queue;
mod watchdog;
pub mod wire;

pub use error::Error;
use place::MemoryRef;
pub use place::{Allocator, MappedMemory, MemoryLocation, Pages};
pub use program::Program;
pub use watchdog::{Guard, Released, Watchdog, Watched};
