//! CPU copies between host memory and a mapping of device memory.
//!
//! A [`Copier`] for each mapping applies the rules of order, alignment and threads. It uses two
//! [`kernels`] in assembly, because the compiler may merge, widen or repeat accesses or turn a loop
//! into `memcpy`, which device memory does not allow. [`plan`] defines the accesses of a copy.
//!
//! Kernels are chosen by `GDR_COPY_KERNEL`, else by [`tune`]'s measurement in this process, else by
//! CPU features. Large copies use helper threads, by default only where all threads together take
//! about the CPU time of one; `GDR_COPY_SPIN_US` allows more. `GDR_COPY_THREADS` (1 to 16) limits
//! the threads of a copy, the caller included; callers with
//! their own threads use [`Copier::to_device_part`], [`Copier::from_device_part`], [`split`] and
//! the [`fence`]s.
//!
//! ```
//! use gdrcopy::copy::{Caching, Copier};
//!
//! let copier = Copier::for_caching(Caching::Cached)?;
//! let (mut device, mut back) = ([0_u8; 100], [0_u8; 100]);
//! // SAFETY: both arrays have 100 bytes; ordinary memory is cached.
//! unsafe {
//!     copier.to_device(device.as_mut_ptr(), [7_u8; 100].as_ptr(), 100);
//!     copier.from_device_ordered(back.as_mut_ptr(), device.as_ptr(), 100);
//! }
//! assert_eq!(back, [7; 100]);
//! # Ok::<(), gdrcopy::copy::Error>(())
//! ```

mod choice;
mod copier;
pub mod fence;
mod kernel;
mod memory;
mod plan;
mod pool;
mod tune;

// Miri cannot run inline assembly: it checks the surrounding code.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "x86_64.rs"]
mod arch;
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[path = "aarch64.rs"]
mod arch;
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[path = "generic.rs"]
mod arch;

pub use choice::Error;
pub use copier::{Caching, Copier, split};
pub use kernel::{Kernel, kernel, kernels};
pub use plan::{Access, plan};
pub use pool::Cpus;
pub use tune::{Origin, TUNE_BYTES, Tuning, tune, tuning};
