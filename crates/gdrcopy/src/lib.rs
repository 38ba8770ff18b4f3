//! Maps GPU memory for the CPU: pin, map, copy, with or without a kernel module.
//!
//! [`Gdr`] opens a backend, [`Pin`] pins GPU memory, [`Mapping`] maps it for the CPU. Each owns
//! what it needs and cleans up on drop in a safe order. [`copy`] has the copy functions for such
//! mappings.
//!
//! ```
//! use gdrcopy::{BackendKind, Gdr, MapRequest, PinFlags};
//! use gpu::{Allocation, Gpu};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gpu = Gpu::sim();
//! let memory = gpu.allocate(Allocation::Malloc, 4096)?;
//! let gdr = Gdr::open_with(BackendKind::Sim)?;
//! let mut mapping = gdr.pin(&memory, 0..4096, PinFlags::default())?.map(MapRequest::Default)?;
//! mapping.write(100, b"from the CPU")?;
//! let mut seen = [0; 12];
//! gpu.stream()?.read(&memory, 100, &mut seen)?;
//! assert_eq!(&seen, b"from the CPU");
//! # Ok(())
//! # }
//! ```
//!
//! On a machine with a GPU, use [`Gpu::open`](gpu::Gpu::open) and [`Gdr::open`] instead.

#![warn(missing_docs)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod backend;
mod best;
mod choice;
pub mod copy;
mod error;
mod gdr;
mod mapping;
mod pages;
mod pin;
mod random;
mod vma;
mod window;

pub use best::{Copied, Crossover};
pub use error::{Error, Kind};
pub use gdr::{Attribute, BackendKind, Explanation, Gdr, Outcome};
pub use mapping::{MapRequest, Mapping, MappingType};
pub use pages::GPU_PAGE;
pub use pin::{Info, Pin, PinFlags};
pub use window::{Unit, Window};
