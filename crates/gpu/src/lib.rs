//! Safe access to NVIDIA GPUs.
//!
//! Vendor libraries are opened at run time and every function in them is optional: what a machine lacks is a value
//! ([`nvml::Reading::NotCovered`], [`Kind::Unsupported`]), never a failure to start. The crate knows nothing of the program
//! that uses it.
//!
//! [`Gpu`] is a GPU in use, real ([`Gpu::open`]) or simulated ([`Gpu::sim`]), with its [`DeviceMemory`], [`HostMemory`],
//! [`Stream`]s, [`Event`]s and [`PeerAccess`] to others, and [`BorrowedMemory`] that somebody else owns; every one of them keeps alive what it needs and undoes itself on drop. [`devices`],
//! [`Device::attribute`] and [`survey()`] ask without a context. [`mod@pointer`] asks about memory that others allocated, and
//! [`mod@foreign`] works in the streams and the context that a program made itself.

#![warn(missing_docs)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod address;
mod backend;
mod borrowed;
mod cuda;
mod device;
mod error;
mod event;
pub mod foreign;
mod gpu;
mod host;
mod memory;
pub mod nvml;
mod operation;
pub mod pages;
mod pattern;
mod peer;
pub mod pointer;
mod sentence;
pub mod sim;
mod stream;
mod survey;

pub use address::{DevicePtr, NotAPciAddress, PciAddress};
pub use backend::Registration;
pub use borrowed::BorrowedMemory;
pub use device::{Attribute, Device, P2pAttribute, devices, driver_version};
pub use error::{Error, Failure, Kind};
pub use event::Event;
pub use gpu::Gpu;
pub use gpu_sim::{Compare, bytes};
pub use host::{HostMemory, PinnedOptions};
pub use memory::{Allocation, DeviceMemory, Memory};
pub use operation::MemoryOperation;
pub use pattern::{Mismatches, Pattern};
pub use peer::PeerAccess;
pub use sentence::sentence;
pub use stream::{Check, Stream};
pub use survey::{Survey, Surveyed, SurveyedPair, survey};
