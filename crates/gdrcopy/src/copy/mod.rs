//! Copies by the CPU between host memory and a mapping of device memory.

mod cache;
mod choice;
mod copier;
pub mod fence;
mod kernel;
mod memory;
mod plan;
mod pool;
mod tune;

#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod arch;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod arch;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "generic.rs"]
mod arch;

pub use choice::Error;
pub use copier::{Caching, Copier, split};
pub use kernel::{Kernel, kernel, kernels};
pub use plan::{Access, plan};
pub use pool::Cpus;
pub use tune::{Origin, TUNE_BYTES, Tuning, tune, tuning};
