//! GPU memory in the address space of the CPU.
//!
//! [`copy`] moves bytes between host memory and a mapping of device memory, by instructions chosen for such mappings.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod copy;
