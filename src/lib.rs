#![forbid(unsafe_code)]
//! gdr: does GPUDirect work on this machine, why not, and the proof.

pub mod model;
pub mod pci;
