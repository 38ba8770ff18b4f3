//! The command line of `gdr probe host`.

use clap::Args;

use super::parent::Options;
use crate::probe::arguments::{Arguments, ScopeArguments, UsageError, copying_nodes};
use crate::probe::scope::{Nodes, Scope};

/// `gdr probe host`.
#[derive(Debug, Args)]
pub struct HostProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: ScopeArguments,

    /// NUMA nodes of the CPUs: all, that of the GPU (near), or a number [default: near with --quick, else all]
    #[arg(long, value_name = "NODE")]
    pub numa: Option<Nodes>,
}

impl Arguments for HostProbe {
    type Probe = Options;
    const PROFILE: &'static str = "mpi";

    fn scope(&self) -> &ScopeArguments {
        &self.scope
    }

    fn probe(&self, scope: Scope, _: bool) -> Result<Options, UsageError> {
        Ok(Options { nodes: copying_nodes(self.numa, scope.terms.depth), scope })
    }
}
