//! The raw ABI of vendor interfaces: numbers, layouts and function types, each with its source, and nothing that decides.
//!
//! Libraries are opened at run time and every function in them is optional: what a driver lacks is a `None`, never a
//! failure to start. Return codes are integers with names for the known ones, so a code newer than this crate is a number,
//! not undefined behaviour. Calling anything here is unsafe; the safe crates above say when it is sound.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod cuda;
pub mod gdrdrv;
pub mod rm;
