//! The command line of `gdr probe rdma`, most of which `gdr probe transfer` has too.

use clap::Args;

use super::options::{MemoryKind, Named, Options, RemoteEnd};
use super::packets::Packets;
use super::peer::PeerArgs;
use super::settings::RelaxedOrdering;
use super::task::MemoryPath;
use crate::probe::arguments::{Arguments, ScopeArguments, UsageError};
use crate::probe::scope::{Nodes, Scope};

/// `gdr probe rdma`.
#[derive(Debug, Args)]
pub struct RdmaProbe {
    /// Those of gdr probe transfer too.
    #[command(flatten)]
    pub nics: NicArgs,

    /// Its own.
    #[command(flatten)]
    pub own: RdmaArgs,
}

/// Options of `gdr probe rdma` and `gdr probe transfer`.
#[derive(Debug, Args)]
pub struct NicArgs {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: ScopeArguments,

    /// The other machine.
    #[command(flatten)]
    pub peer: PeerArgs,

    /// NICs, such as mlx5_0 or mlx5_0:1; separate several with commas [default: the best NIC of each GPU]
    #[arg(long, short, value_name = "DEVICE", value_delimiter = ',')]
    pub device: Vec<Named>,

    /// Use this port of this machine as the remote end [default: the same port]
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["peer", "listen", "rendezvous", "secret_file", "no_secret"])]
    pub remote_device: Option<Named>,

    /// GID index at every port; with several, each is used in turn [default: prefers RoCE v2 with an IPv4 address]
    #[arg(long, value_name = "INDEX", value_delimiter = ',')]
    pub gid_index: Vec<u8>,

    /// P_Key index at every port of this machine
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    pub pkey_index: u16,

    /// Use only this memory path; by default the first that works
    #[arg(long, value_name = "PATH", value_enum)]
    pub memory_path: Option<MemoryPath>,

    /// NUMA nodes of this machine's CPUs and host memory: that of the NIC (near), all, or a number
    ///
    /// By default near, and a short comparison with another node, which shows what the wrong one costs (not with
    /// --quick).
    #[arg(long, value_name = "NODE")]
    pub numa: Option<Nodes>,

    /// Number of queue pairs for bandwidth tests
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub qps: u32,

    /// How packets are addressed and retried.
    #[command(flatten)]
    pub packets: Packets,
}

/// Options of `gdr probe rdma` alone.
#[derive(Debug, Default, Args)]
pub struct RdmaArgs {
    /// Kind of memory [default: gpu if there is a GPU, else host]
    #[arg(long, value_name = "MEMORY", value_enum)]
    pub memory: Option<MemoryKind>,

    /// Also measure host memory with on-demand paging (ODP), beside pinned memory
    ///
    /// Both ends register it a second time so that no page is pinned; the NIC takes page faults instead. Each operation
    /// over RC that both NICs offer is verified and measured again, and so is the first touch of pages. Implies --memory
    /// host: GPU memory has no on-demand paging.
    #[arg(long, conflicts_with_all = ["all", "listen"])]
    pub odp: bool,

    /// Measure each GPU with each NIC, one figure per pair, to compare path classes
    #[arg(long)]
    pub all: bool,

    /// Also measure all GPUs with their NICs at the same time, to find what they share
    ///
    /// Each alone and then all together, on one machine: writes of the largest size. With --memory host, the NICs that
    /// --device names.
    #[arg(long, conflicts_with_all = ["peer", "listen", "rendezvous", "secret_file", "no_secret", "all"])]
    pub together: bool,

    /// Print the equivalent perftest commands
    #[arg(long)]
    pub show_perftest: bool,
}

impl Arguments for RdmaProbe {
    type Probe = Options;
    const PROFILE: &'static str = "rdma";

    fn scope(&self) -> &ScopeArguments {
        &self.nics.scope
    }

    fn peer_host(&self) -> Option<String> {
        self.nics.peer.host()
    }

    fn probe(&self, scope: Scope, is_live: bool) -> Result<Options, UsageError> {
        self.nics.options(&self.own, scope, is_live)
    }
}

impl NicArgs {
    /// The options of a connection.
    pub fn options(
        &self,
        own: &RdmaArgs,
        scope: Scope,
        is_live: bool,
    ) -> Result<Options, UsageError> {
        let kind = match own.memory {
            None if self.memory_path.is_some() || scope.sim || own.all => MemoryKind::Gpu,
            None if own.odp => MemoryKind::Host,
            None => MemoryKind::Best,
            Some(kind) => kind,
        };
        if scope.sim && kind != MemoryKind::Gpu {
            return Err("--sim needs GPU memory: omit --memory, or use --memory gpu".into());
        }
        if kind != MemoryKind::Gpu && self.memory_path.is_some() {
            return Err("--memory-path needs GPU memory: omit --memory, or use --memory gpu".into());
        }
        if own.odp && kind != MemoryKind::Host {
            return Err("--odp is for host memory, whose pages the kernel finds for the NIC: use \
                --memory host, without --sim and --memory-path"
                .into());
        }
        let options = Options {
            kind,
            memory_path: self.memory_path,
            devices: self.device.clone(),
            remote: if is_live {
                self.peer.remote(self.remote_device.as_ref())?
            } else {
                RemoteEnd::Here(None)
            },
            gids: self.gid_index.clone(),
            pkey_index: self.pkey_index,
            settings: self.packets.settings()?,
            relaxed_ordering: self.packets.relaxed_ordering.unwrap_or(RelaxedOrdering::On),
            on_demand: own.odp,
            nodes: self.numa,
            all: own.all,
            together: own.together,
            link: false,
            queue_pairs: self.qps,
            curves: false,
            perftest: own.show_perftest,
            scope,
        };
        if options.simulates_nic()
            && (self.memory_path.is_some()
                || !self.gid_index.is_empty()
                || self.pkey_index != 0
                || own.show_perftest
                || self.packets.is_any())
        {
            return Err(
                "--memory-path, --gid-index, --pkey-index, --show-perftest and the options of \
                packets need a real NIC, but --sim simulates it: name one with --device"
                    .into(),
            );
        }
        if matches!(options.remote, RemoteEnd::Comes(..)) && self.packets.is_any() {
            return Err(
                "the client chooses how packets are addressed: give these options to it, not \
                to --listen"
                    .into(),
            );
        }
        Ok(options)
    }
}
