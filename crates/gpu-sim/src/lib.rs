//! The engine of simulated GPUs: [`Queue`]s whose thread does the work of a stream in order, [`Record`]s of events, memory
//! operations, [`Kernel`]s and [faulty copies](Faults), all on memory of the host.
//!
//! The engine knows no API. Two stand on it, each with its own table of memory and its own error codes: crate `gpu`, whose simulated
//! GPUs ship behind `--sim`, and crate `fake-cuda`, a `libcuda.so.1` for tests. Real GPUs share memory with the CPU too, so
//! crate `gpu` takes [`bytes`] from here.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod bytes;
mod event;
mod faults;
mod kernels;
mod operation;
mod queue;
mod span;
mod stream;

pub use event::{Record, State};
pub use faults::{Fault, Faults, Flaw, Spoiler};
pub use kernels::Kernel;
pub use operation::{Compare, Operation};
pub use queue::{Item, Queue};
pub use span::{Keeper, Span};
