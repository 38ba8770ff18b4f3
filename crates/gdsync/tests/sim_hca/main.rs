//! The simulated HCA on a simulated GPU, compared with a reference model that is written from the layouts of mlx5dv.h and shares
//! no code with the crate.

#![allow(clippy::unwrap_used)]

mod connection;
mod datagrams;
mod errors;
mod faults;
mod lane;
mod model;
mod operations;
mod process;
mod programs;
#[allow(dead_code, reason = "the lanes have the operations")]
#[path = "../sides/mod.rs"]
mod sides;
mod socket;
mod streams;
mod table;
