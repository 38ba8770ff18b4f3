//! Debian's libmlx5 as oracle for mlx5's queues: on a fake uverbs node (crate `fake-uverbs`) it writes WQEs that we compare with
//! ours, and polls our CQEs.

mod address;
mod completion;
mod device;
mod devx;
mod devx_refused;
mod devx_state;
mod encode;
mod hand;
#[path = "../../../fake-uverbs/tests/inside/mod.rs"]
mod inside;
mod kernel;
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
