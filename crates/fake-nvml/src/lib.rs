//! A SIMULATION of `libnvidia-ml.so.1`, for tests: no driver, no GPU, every answer out of the JSON file that the
//! environment variable `FAKE_NVML` names. The machines we keep are in `machines/`; `src/machine.rs` says what a file may hold.
//!
//! Signatures and structures are written here from nvml.h 13, not taken from the binding the reader uses, so that a wrong
//! layout on either side shows. `--features old` leaves the newer functions out, as if the driver were old; no real version lacks just these.
//!
//! Three keys make it misbehave: `"init_error": 18` makes `nvmlInit_v2` return that code, `"errors": {"FUNCTION": 15}` any
//! function, and `"hang_in": "FUNCTION"` makes one sleep for ever.

#![deny(clippy::undocumented_unsafe_blocks)]

mod answer;
mod device;
mod layout;
mod machine;
#[cfg(not(feature = "old"))]
mod newer;
mod nvlink;
mod system;
