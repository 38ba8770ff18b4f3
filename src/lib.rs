#![forbid(unsafe_code)]
//! gdr: does GPUDirect work on this machine, why not, and the proof.
//!
//! `World` is read, `collect` makes facts of it, `topo` makes the forest, `check` makes findings, `render` shows them.
//! DESIGN.md draws the rooms and the arrows between them.

pub mod check;
pub mod cli;
pub mod cmd;
pub mod code;
pub mod collect;
pub mod explain;
pub mod fix;
pub mod fleet;
pub mod import;
pub mod input;
pub mod job;
pub mod keeper;
pub mod kmod;
pub mod model;
pub mod output;
pub mod pci;
pub mod probe;
pub mod profile;
pub mod render;
pub mod snapshot;
pub mod topo;
pub mod world;
