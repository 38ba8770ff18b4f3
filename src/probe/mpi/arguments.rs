//! The command line of `gdr probe mpi`.

use std::path::PathBuf;

use clap::Args;

use super::parent::{MemoryChoice, Options};
use crate::probe::arguments::{Arguments, ScopeArguments, UsageError};
use crate::probe::scope::Scope;

/// `gdr probe mpi`.
#[derive(Debug, Args)]
pub struct MpiProbe {
    /// Options of every probe.
    #[command(flatten)]
    pub scope: ScopeArguments,

    /// The MPI library, as a file or a name for the loader [default: that of the launcher]
    #[arg(long, value_name = "LIB")]
    pub mpi: Option<PathBuf>,

    /// Kind of memory [default: host and, if there is a GPU, gpu]
    #[arg(long, value_name = "MEMORY", value_enum)]
    pub memory: Option<MemoryChoice>,
}

impl Arguments for MpiProbe {
    type Probe = Options;
    const PROFILE: &'static str = "mpi";

    fn scope(&self) -> &ScopeArguments {
        &self.scope
    }

    fn probe(&self, scope: Scope, _: bool) -> Result<Options, UsageError> {
        if scope.sim && (self.mpi.is_some() || self.memory == Some(MemoryChoice::Host)) {
            return Err("--sim simulates MPI and a GPU: omit --mpi and --memory host".into());
        }
        let memory = self.memory.unwrap_or(MemoryChoice::Best);
        Ok(Options { scope, library: self.mpi.clone(), memory })
    }
}
