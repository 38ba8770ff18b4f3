//! A SIMULATION of `libcuda.so.1` for tests, without driver or GPU. All results come from the JSON
//! file in the environment variable `FAKE_CUDA`. The machines are in `machines/`; `src/machine.rs`
//! describes the format and how to inject failures. With `"log": "FILE"`, the name of each called
//! function is appended to that file.
//!
//! Exported functions have cuda.h's contract: each pointer is null or valid for what cuda.h says,
//! for the stream's work too if the function is asynchronous.
//!
//! Signatures are written from cuda.h 13.0, independently of gdr-sys.
//!
//! Memory is real: a GPU's is a file `memfd:fake-cuda-gpuN`, which the simulated NIC of crate
//! `fake-verbs` can map. `gpu::sim::execution` runs the work, as for the simulated GPUs of crate `gpu`:
//! the CPU does copies and the kernels of `crates/gpu/src/kernels.ptx`, and events use the CPU's
//! clock, so timings are meaningless. A kernel's illegal access breaks its context (700); a copy
//! outside an allocation is rejected (1).

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
mod newer;
mod operations;
mod pages;
mod pointer;
mod stream;
mod system;
mod visible;
