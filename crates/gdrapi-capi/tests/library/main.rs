//! The library as programs meet it: a file with a name, exports and a header, and what its
//! functions answer in C.

mod abi;
#[path = "../../../../tests/support/clib.rs"]
mod clib;
#[path = "../../../../tests/support/need.rs"]
#[allow(dead_code, reason = "the other tests need what these do not")]
mod need;
mod programs;
mod support;
