//! The library for C programs: file, exports, headers and behaviour.

mod abi;
#[path = "../../../../tests/support/clib.rs"]
mod clib;
mod programs;
mod queues;
mod support;
mod upstream;
mod variables;
