//! What an initramfs carries of the NVIDIA modules: read as a stream, reduced to a few lines, within limits.
//!
//! As the kernel reads it (init/initramfs.c, buffer-format.rst): archives one after the other, zeros between them, each
//! uncompressed or packed; the first are often microcode, uncompressed.

mod archive;
mod image;
mod input;
mod uki;
mod unpack;

pub use image::{Reading, read, read_unified};
