//! Runs the work of simulated GPUs: [`Queue`]s with one thread for each stream, event [`Record`]s, memory
//! operations, [`Kernel`]s and [copy faults](Faults), all on host memory.
//!
//! It has no API of a driver. Two users add memory tables and error codes: the simulated GPUs of this
//! crate, and crate `fake-cuda`, a `libcuda.so.1` for tests.

mod event;
mod faults;
mod kernels;
mod operation;
mod post;
mod queue;
mod span;
mod stream;

pub use event::{Record, RecordState};
pub use faults::{Fault, FaultInjector, Faults, Flaw};
pub use kernels::{Kernel, PingPongData};
pub use operation::{Compare, Operation};
pub use post::{Post, Resolver};
pub use queue::{Item, Queue};
pub use span::{Keeper, Span};
