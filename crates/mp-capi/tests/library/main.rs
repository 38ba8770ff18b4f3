//! The library for C programs: file, exports, headers, and programs under the launchers of Open MPI and MPICH.

mod abi;
#[path = "../../../../tests/support/clib.rs"]
mod clib;
mod programs;
mod support;
