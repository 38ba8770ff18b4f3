//! Options of `gdr probe rdma`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;

use super::settings::{RelaxedOrdering, Settings};
use super::task::MemoryPath;
use crate::probe::rendezvous::Secret;
use crate::probe::scope::{Nodes, Scope};

/// A NIC's port as a person names it: `mlx5_0` or `mlx5_0:1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub device: String,
    /// Its port; none for the first one that is up.
    pub port: Option<u8>,
}

/// Kind of the memory under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MemoryKind {
    /// GPU memory if there is a GPU, else host memory.
    #[value(skip)]
    Best,
    /// Host memory.
    Host,
    /// Host memory in huge pages.
    Huge,
    /// Host memory pinned by a GPU driver.
    Pinned,
    /// GPU memory.
    Gpu,
}

/// Location of the remote end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteEnd {
    /// On this machine: the local port itself, or this one.
    Here(Option<Named>),
    /// A listening gdr.
    At {
        host: String,
        port: u16,
        /// The secret of both.
        secret: Secret,
    },
    /// Connects to this address. Without a secret one is generated and printed.
    Comes(SocketAddr, Option<Secret>),
    /// Started by a launcher, Slurm's srun or an mpirun. The processes connect through this file, or as the launcher's variables say.
    /// Without a secret the file has one.
    Launched(Option<PathBuf>, Option<Secret>),
}

/// `gdr probe rdma`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which GPUs, and how much.
    pub scope: Scope,
    pub kind: MemoryKind,
    /// The memory path to GPU memory; none for the first one that works.
    pub memory_path: Option<MemoryPath>,
    /// The NICs; empty for the best ones.
    pub devices: Vec<Named>,
    pub remote: RemoteEnd,
    /// The indices of the GIDs, of every port; empty for the best one. Each is used in turn.
    pub gids: Vec<u8>,
    /// The index of the P_Key, of every port.
    pub pkey_index: u16,
    /// How packets are addressed and retried.
    pub settings: Settings,
    pub relaxed_ordering: RelaxedOrdering,
    /// Also with host memory that is registered for on-demand paging.
    pub on_demand: bool,
    /// The NUMA nodes of the CPUs and of host memory; none for the NIC's, and a short comparison with another one.
    pub nodes: Option<Nodes>,
    /// Every GPU with every NIC, one figure each.
    pub all: bool,
    /// Also all connections at the same time.
    pub together: bool,
    /// One link of a fleet: a few figures of each connection.
    pub link: bool,
    /// Queue pairs that move the bandwidth.
    pub queue_pairs: u32,
    /// The curves of `gdr probe transfer` instead of all test cases.
    pub curves: bool,
    /// Print the equivalent perftest commands.
    pub perftest: bool,
}

impl Options {
    /// True if the NIC is simulated like the GPU: with `--sim`, unless a device or another machine is named.
    pub fn simulates_nic(&self) -> bool {
        let is_named = self.curves && self.devices.iter().any(|named| named.device == "sim");
        (self.scope.sim && self.devices.is_empty() || is_named)
            && self.remote == RemoteEnd::Here(None)
    }

    /// As in `gdr probe NAME`.
    pub fn name(&self) -> &'static str {
        if self.curves { "transfer" } else { "rdma" }
    }

    /// Bytes of the largest message.
    pub fn room(&self) -> usize {
        let terms = &self.scope.terms;
        if self.curves {
            terms.transfer_sizes().last().copied().unwrap_or(4)
        } else {
            terms.rdma_room()
        }
    }

    /// True if the memory under test may be a GPU's.
    pub fn wants_gpus(&self) -> bool {
        !matches!(self.kind, MemoryKind::Host | MemoryKind::Huge)
    }
}
