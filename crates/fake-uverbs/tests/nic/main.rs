//! The executing NIC under Debian's own libibverbs and libmlx5: data transfer, completions and errors as the manual pages and the
//! InfiniBand specification say.

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
mod peers;
mod programs;
#[path = "../../../gdsync/tests/oracle/random.rs"]
mod random;
mod raw;
mod resets;
mod thread_domain;
mod work;

/// Makes the NIC execute.
const NIC: (&str, &str) = ("FAKE_UVERBS_NIC", "1");
