//! GPUDirect Async: a CUDA stream sends, and waits for what was sent or received, without the CPU.
//!
//! The CPU writes WQEs ahead of time. A stream sends by writing two words (doorbell record and
//! doorbell register) and receives by waiting for one bit of a CQE. Modules, lowest first:
//!
//! - `wire`: layouts of mlx5 WQEs and CQEs, and queue counters. It depends on no other module.
//! - `place`: memory for queues and polled words that both the CPU and the GPU can access.
//! - `descriptor`: ordered steps (write, wait, barrier, flush) for a stream or the CPU.
//! - `queue`: send, receive and completion queues in given places.
//! - `hca`: executes the queues. `sim` is a simulated HCA that reads doorbells, executes WQEs on
//!   registered memory and writes CQEs; `mlx5` is a NIC; `proxy` posts to any verbs device.
//!
//! Dependencies: hca → queue → wire, place; descriptor → place. The simulated HCA and the queues
//! share `wire`, which tests compare with rdma-core's provider byte for byte.

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
