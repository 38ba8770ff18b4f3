//! Tests of the built library: exports, header, and C programs.

mod abi;
#[path = "../../../../tests/support/clib.rs"]
mod clib;
mod programs;
mod support;
