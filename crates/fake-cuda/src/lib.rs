//! A SIMULATION of `libcuda.so.1`, for tests: no driver, no GPU, every answer out of the JSON file that the environment
//! variable `FAKE_CUDA` names. The machines we keep are in `machines/`; `src/machine.rs` says what a file may hold.
//!
//! Signatures are written here from cuda.h 13.0, not taken from gdr-sys. `--features old` leaves the newer functions out,
//! as if the driver were old; no real version lacks just these.
//!
//! Three keys make it misbehave: `"errors": {"FUNCTION": 802}` makes a function return that code, `"hang_in": "FUNCTION"`
//! makes one sleep for ever, and with `"log": "FILE"` the name of each function that is called is written there, a line
//! each.

#![deny(clippy::undocumented_unsafe_blocks)]

mod answer;
mod context;
mod device;
mod machine;
#[cfg(not(feature = "old"))]
mod newer;
mod system;
