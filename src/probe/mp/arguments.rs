//! The command line of `gdr probe mp`.

use std::path::PathBuf;

use clap::Args;

use super::mpi::{MpiFigures, launched};
use super::parent::{Hca, Options};
use crate::probe::arguments::{Arguments, ScopeArguments, UsageError};
use crate::probe::asynchronous::{HcaArgument, NO_NIC};
use crate::probe::rdma::{Named, PeerArgs, RemoteEnd};
use crate::probe::scope::Scope;

/// `gdr probe mp`.
#[derive(Debug, Args)]
pub struct MpProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: ScopeArguments,

    /// The other machine.
    #[command(flatten)]
    pub peer: PeerArgs,

    /// Provider of the queues [default: mlx5 if the GPU can ring the NIC's doorbells, else proxy; sim with --sim]
    #[arg(long, value_name = "HCA", value_enum)]
    pub hca: Option<HcaArgument>,

    /// NIC for mlx5 and proxy, such as mlx5_0 or mlx5_0:1 [default: the best NIC of each GPU]
    #[arg(long, short, value_name = "DEVICE")]
    pub device: Option<Named>,

    /// GID index at the port of the NIC [default: prefers RoCE v2 with an IPv4 address]
    #[arg(long, value_name = "INDEX")]
    pub gid_index: Option<u8>,

    /// Launcher of MPI's own figures, a name or a path [default: mpirun if it is installed; none with --sim]
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["peer", "listen", "rendezvous", "no_mpi"])]
    pub mpi: Option<PathBuf>,

    /// Leave out MPI's own figures
    #[arg(long)]
    pub no_mpi: bool,
}

impl Arguments for MpProbe {
    type Probe = Options;
    // No bandwidth limits latencies: there is no threshold.
    const PROFILE: &'static str = "gdrcopy";

    fn scope(&self) -> &ScopeArguments {
        &self.scope
    }

    fn peer_host(&self) -> Option<String> {
        self.peer.host()
    }

    fn probe(&self, scope: Scope, is_live: bool) -> Result<Options, UsageError> {
        let hca = match self.hca {
            None if scope.sim => Hca::Sim,
            None => Hca::Auto,
            Some(HcaArgument::Mlx5) => Hca::Mlx5,
            Some(HcaArgument::Proxy) => Hca::Proxy,
            Some(HcaArgument::Sim) => Hca::Sim,
        };
        if hca == Hca::Sim && (self.device.is_some() || self.gid_index.is_some()) {
            return Err(NO_NIC.into());
        }
        let remote = if is_live { self.peer.remote(None)? } else { RemoteEnd::Here(None) };
        let launched = match &remote {
            RemoteEnd::Launched(..) => launched(),
            _ => None,
        };
        let is_here = matches!(remote, RemoteEnd::Here(_));
        let mpi = match &self.mpi {
            _ if self.no_mpi => MpiFigures::None,
            Some(launcher) => MpiFigures::By(launcher.clone()),
            None if is_here && !scope.sim => MpiFigures::By("mpirun".into()),
            None => launched.map_or(MpiFigures::None, MpiFigures::Launched),
        };
        Ok(Options { hca, device: self.device.clone(), gid: self.gid_index, remote, mpi, scope })
    }
}
