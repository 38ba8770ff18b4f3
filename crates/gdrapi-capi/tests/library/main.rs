//! The library as programs meet it: a file with a name, exports and a header, and what its
//! functions answer in C.

mod abi;
#[path = "../../../../tests/support/clib.rs"]
mod clib;
mod programs;
mod support;
