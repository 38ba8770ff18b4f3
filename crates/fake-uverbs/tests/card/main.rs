//! The NIC that executes, driven by Debian's own libibverbs and libmlx5: what is posted moves bytes and completes as the manual
//! pages and the InfiniBand specification say, and what is wrong fails with the right status.

mod bench;
mod contexts;
mod device;
mod errors;
mod events;
mod faults;
#[path = "../inside/mod.rs"]
mod inside;
mod keys;
mod lane;
#[path = "../../../gdsync/tests/oracle/mlx5dv.rs"]
mod mlx5dv;
mod overrun;
mod programs;
#[path = "../../../gdsync/tests/oracle/random.rs"]
mod random;
mod raw;
mod resets;
mod thread_domain;
mod work;

/// With this the NIC executes.
const CARD: (&str, &str) = ("FAKE_UVERBS_CARD", "1");
