//! `gdr probe copy`: GPU memory mapped for the CPU, every byte verified, every size measured against cuMemcpy.
//!
//! [`run`] is the parent's side: it asks a child which GPUs there are and has each probed by a child of its own, bound to
//! the CPUs of one NUMA node. [`answer`] is the child's.

mod calls;
mod child;
mod crossover;
mod expected;
mod kernels_check;
mod ping_pong;
mod plan;
mod request;
mod session;
mod supervise;
mod sweep;
#[cfg(test)]
mod tests;
mod validate;

pub use child::{answer, kernels};
pub use expected::expected;
pub use request::Task;
pub use supervise::{Options, run};
