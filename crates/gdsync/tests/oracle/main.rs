//! An oracle for mlx5's queues: Debian's own libmlx5, in a process where the kernel's uverbs node is a double
//! (crate `fake-uverbs`), writes what a NIC would be given, and reads completions that we wrote.

mod address;
mod completion;
mod devx;
mod devx_refused;
mod devx_told;
mod encode;
mod hand;
#[path = "../../../fake-uverbs/tests/inside/mod.rs"]
mod inside;
mod memory;
mod mlx5dv;
mod objects;
mod outcome;
mod provider;
mod random;
mod receive;
mod request;
mod send;
mod vectors;
