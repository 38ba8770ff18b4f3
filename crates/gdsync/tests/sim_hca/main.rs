//! The simulated HCA on a simulated GPU, compared with a reference model that is written from the layouts of mlx5dv.h and shares
//! no code with the crate.

#![allow(clippy::unwrap_used)]

mod connection;
mod errors;
mod faults;
mod lane;
mod model;
mod operations;
mod process;
mod programs;
mod socket;
mod streams;
mod table;
