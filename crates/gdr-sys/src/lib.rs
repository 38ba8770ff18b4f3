//! Raw vendor ABIs: numbers, layouts and function types, each with its source, without policy.
//!
//! Libraries are opened at run time and every function is optional: a missing function is `None`
//! and never prevents startup. Return codes are integers with names for known values, so an unknown
//! code is not undefined behaviour. All calls are unsafe; the safe crates above document when they
//! are sound.

#![deny(clippy::undocumented_unsafe_blocks)]

pub mod cuda;
pub mod gdrdrv;
pub mod rm;
