//! A SIMULATION of `libnvidia-ml.so.1`, for tests: without driver or GPU. All answers come from the JSON file named by the environment
//! variable `FAKE_NVML`; `machines/` has machine files, and `src/machine.rs` describes the format.
//!
//! Signatures and structures are written from nvml.h 13, not taken from the binding under test, so that a wrong layout on either side
//! shows.
//!
//! Faults: `"init_error": 18` is the result of `nvmlInit_v2`, `"errors": {"FUNCTION": 15}` of any function, and
//! `"hang_in": "FUNCTION"` makes a function sleep forever.

#![deny(clippy::undocumented_unsafe_blocks)]

mod answer;
mod device;
mod layout;
mod machine;
mod newer;
mod nvlink;
mod system;
