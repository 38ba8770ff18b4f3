//! The library as programs meet it: a file with a name, exports and headers, and what its functions answer in C.

mod abi;
#[path = "../../../../tests/support/clib.rs"]
mod clib;
mod programs;
mod queues;
mod support;
mod upstream;
