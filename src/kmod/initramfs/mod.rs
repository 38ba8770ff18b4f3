//! Reads an initramfs as a stream, within limits, and keeps what concerns the NVIDIA modules.
//!
//! Like the kernel (init/initramfs.c, buffer-format.rst): archives in sequence with zeros between them,
//! each compressed or not; the first are often uncompressed microcode.

mod archive;
mod image;
mod uki;

pub use image::{Reading, read, read_unified};
