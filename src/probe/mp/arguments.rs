//! The command line of `gdr probe mp`.

use std::path::PathBuf;

use clap::Args;

use super::mpi::{MpiFigures, launched};
use super::parent::Options;
use crate::probe::arguments::{Arguments, ScopeArguments, UsageError};
use crate::probe::hca::{HcaProvider, NicArgs};
use crate::probe::rdma::{PeerArgs, RemoteEnd};
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
    pub hca: Option<HcaProvider>,

    /// The NIC.
    #[command(flatten)]
    pub nic: NicArgs,

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
        let default = if scope.sim { HcaProvider::Sim } else { HcaProvider::Auto };
        let hca = self.nic.of(self.hca.unwrap_or(default))?;
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
        Ok(Options { hca, remote, mpi, scope })
    }
}
