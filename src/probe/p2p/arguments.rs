//! The command line of `gdr probe p2p`.

use clap::Args;

use super::parent::Options;
use crate::probe::arguments::{Arguments, ScopeArguments, UsageError};
use crate::probe::scope::Scope;

/// `gdr probe p2p`.
#[derive(Debug, Args)]
pub struct P2pProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: ScopeArguments,
}

impl Arguments for P2pProbe {
    type Probe = Options;
    const PROFILE: &'static str = "p2p";
    const OF_PAIRS: bool = true;

    fn scope(&self) -> &ScopeArguments {
        &self.scope
    }

    fn probe(&self, scope: Scope, _: bool) -> Result<Options, UsageError> {
        Ok(Options { scope })
    }
}
