//! Safe access to NVIDIA GPUs.
//!
//! Vendor libraries are opened at run time and every function in them is optional: what a machine lacks is a value
//! ([`nvml::Reading::NotCovered`], [`Kind::Unsupported`]), never a failure to start. The crate knows nothing of the program
//! that uses it.

#![deny(clippy::undocumented_unsafe_blocks)]

mod address;
mod cuda;
mod device;
mod error;
pub mod memory;
pub mod nvml;
pub mod pointer;
pub mod sim;

pub use address::{DevicePtr, NotAPciAddress, PciAddress};
pub use device::{Attribute, Device, P2pAttribute, devices, driver_version};
pub use error::{Error, Failure, Kind};
pub use memory::Allocation;
