//! Engine of simulated GPUs: [`Queue`]s with one thread for each stream, event [`Record`]s, memory
//! operations, [`Kernel`]s and [copy faults](Faults), all on host memory.
//!
//! The engine has no API of a driver. Two users add memory tables and error codes: crate `gpu`,
//! whose simulated GPUs ship behind `--sim`, and crate `fake-cuda`, a `libcuda.so.1` for tests.
//! Crate `gpu` also uses [`bytes`] for memory that real GPUs share with the CPU.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod bytes;
mod event;
mod faults;
mod kernels;
mod operation;
mod post;
mod queue;
mod span;
mod stream;

pub use event::{Record, State};
pub use faults::{Fault, FaultInjector, Faults, Flaw};
pub use kernels::{Kernel, PingPongData};
pub use operation::{Compare, Operation};
pub use post::{Post, Resolver};
pub use queue::{Item, Queue};
pub use span::{Keeper, Span};
