//! Shared parts of the integration tests: test machines and runs of the binary.
//!
//! Nothing here may call gdr's library: an expected value must not come from the tested code.
// Each test binary compiles this whole module and uses a part of it.
#![allow(dead_code, unused_imports)]

mod bars;
mod bench;
mod beside;
mod config;
mod cpus;
pub mod crowded;
mod cuda;
mod device;
mod dump;
mod ethtool;
mod expect;
mod extended;
mod files;
mod kmod;
mod layout;
mod machine;
mod modules;
pub mod nics;
mod node;
pub mod reports;
mod run;
mod scratch;
mod side;
mod slurm;
mod sysfs;
mod tree;

pub use bench::{Bench, Entry, merge};
pub use cpus::{lay_out as lay_out_cpus, mask};
pub use cuda::fake_cuda;
pub use device::Device;
pub use dump::{Classes, agreement, classes, everywhere, file, limited, rdma_topo};
pub use ethtool::fake_ethtool;
pub use expect::{AcsFinding, Expect};
pub use kmod::{Kmod, Loaded};
pub use machine::{Machine, corpus, names, recorded};
pub use node::Node;
pub use run::{Gdr, MEMORY, MEMORY_UNPACKED, Run, SafeBinary, copy_gdr, free_port, gdr};
pub use scratch::scratch;
pub use side::{Ended, Invitation, Side};
pub use slurm::{NODES, Slurm, script};
