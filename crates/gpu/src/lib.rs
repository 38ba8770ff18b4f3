//! Safe access to NVIDIA GPUs.
//!
//! Vendor libraries are opened at run time and every function in them is optional: what a machine lacks is a value
//! ([`nvml::Reading::NotCovered`]), never an error and never a failure to start. The crate knows nothing of the program
//! that uses it.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod nvml;
