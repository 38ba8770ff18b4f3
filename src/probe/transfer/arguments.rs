//! The command line of `gdr probe transfer`.

use clap::Args;

use super::parent::Options;
use crate::probe::arguments::{Arguments, ScopeArguments, UsageError};
use crate::probe::rdma::{self, MemoryKind, NicArgs, RdmaArgs};
use crate::probe::scope::Scope;

/// `gdr probe transfer`.
#[derive(Debug, Args)]
pub struct TransferProbe {
    /// Those of gdr probe rdma.
    #[command(flatten)]
    pub nics: NicArgs,
}

impl Arguments for TransferProbe {
    type Probe = Options;
    const PROFILE: &'static str = "rdma";
    /// GPUDirect v2 is between GPUs.
    const OF_PAIRS: bool = true;

    fn scope(&self) -> &ScopeArguments {
        &self.nics.scope
    }

    fn peer_host(&self) -> Option<String> {
        self.nics.peer.host()
    }

    fn probe(&self, scope: Scope, is_live: bool) -> Result<Options, UsageError> {
        let options = self.nics.options(&RdmaArgs::default(), scope, is_live)?;
        Ok(Options(rdma::Options { curves: true, kind: MemoryKind::Gpu, ..options }))
    }
}
