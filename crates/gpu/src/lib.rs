//! Safe access to NVIDIA GPUs.
//!
//! Vendor libraries are opened at run time and every function is optional: missing features are
//! values ([`Kind::Unsupported`]) and never prevent startup.
//!
//! [`Gpu`] is a real ([`Gpu::open`]) or simulated ([`Gpu::sim`]) GPU with its [`DeviceMemory`],
//! [`HostMemory`], [`Stream`]s, [`Event`]s, [`PeerAccess`] and externally owned [`BorrowedMemory`];
//! each keeps alive what it needs and cleans up on drop. [`devices`], [`Device::attribute`] and
//! [`Cuda`] need no context. [`mod@pointer`] queries memory that others allocated, and
//! [`mod@foreign`] uses the program's own streams and context.

#![warn(missing_docs)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod address;
mod backend;
mod borrowed;
pub mod bytes;
mod cuda;
mod device;
mod error;
mod event;
pub mod foreign;
mod gpu;
mod host;
mod memory;
#[cfg(feature = "nvml")]
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
pub use gpu::{Gpu, Schedule};
pub use host::{HostMemory, PinnedOptions};
pub use memory::{Allocation, DeviceMemory, Memory};
pub use operation::{MemOp, StreamCapabilities, Word};
pub use pattern::{Mismatches, Pattern};
pub use peer::PeerAccess;
pub use sentence::sentence;
pub use sim::execution::Compare;
pub use stream::{
    Batches, Check, DevicePayload, DeviceQueue, DeviceRange, DeviceRequest, Operations, PostEnd,
    Posted, Posting, Shape, Stream, WRONG_DATA, data_word, message_word,
};
pub use survey::{Cuda, CudaDevice};
