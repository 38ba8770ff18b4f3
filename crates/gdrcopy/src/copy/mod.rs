//! Copies by the CPU between host memory and a mapping of device memory.
//!
//! A [`Copier`] is made for a mapping and copies; all rules of order, alignment and threads are its. It copies with two of
//! the [`kernels`], each a set of instructions of our own: the compiler may merge, widen or repeat any access it knows
//! of, and may turn a loop of them into `memcpy`, none of which device memory forgives. [`plan`] says which accesses a copy
//! makes.
//!
//! Kernels are chosen by the variable `GDR_COPY_KERNEL`, else by [`tune`]'s measurement of this machine, kept in
//! `$XDG_CACHE_HOME/gdr/copy-kernels`, else by the CPU's features. Reads from 16 KiB and writes from 64 KiB on are shared
//! with helper threads, at most `GDR_COPY_THREADS` (1 to 16) with the caller's; callers with threads of their own use
//! [`Copier::to_device_part`], [`Copier::from_device_part`], [`split`] and the [`fence`]s.
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

mod cache;
mod choice;
mod copier;
pub mod fence;
mod kernel;
mod memory;
mod plan;
mod pool;
mod tune;

// Miri knows no instructions of our own: it checks all that is around them.
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
