//! A SIMULATION of `libcuda.so.1`, for tests: no driver, no GPU, every answer out of the JSON file that the environment
//! variable `FAKE_CUDA` names. The machines we keep are in `machines/`; `src/machine.rs` says what a file may hold.
//!
//! Signatures are written here from cuda.h 13.0, not taken from gdr-sys. `--features old` leaves the newer functions out,
//! as if the driver were old; no real version lacks just these.
//!
//! Memory is real pages, a GPU's those of a file `memfd:fake-cuda-gpuN` that the simulated card of crate `fake-verbs` can map,
//! too. The engine is that of crate `gpu`'s simulated GPUs (crate `gpu-sim`): copies and the kernels of
//! `crates/gpu/src/kernels.ptx` are done by the CPU, and events give the CPU's time, so figures say nothing of any GPU. What a kernel may not touch breaks its context (700), a copy out of an allocation is refused (1).
//!
//! `src/machine.rs` says how a machine file makes it misbehave; with `"log": "FILE"` the name of each function that is called
//! is written there, a line each.

#![deny(clippy::undocumented_unsafe_blocks)]

mod answer;
mod context;
mod copy;
mod delivery;
mod device;
mod event;
mod failure;
mod kernel;
mod machine;
mod memory;
mod module;
#[cfg(not(feature = "old"))]
mod newer;
mod operations;
mod pages;
mod pointer;
mod stream;
mod system;
mod visible;
