//! The software HCA behind the queues, on a simulated GPU: what entries do and what completions say, against a model of the test's
//! own that is written from the layouts of mlx5dv.h and knows nothing of the crate's.

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
