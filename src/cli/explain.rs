//! Arguments of `gdr explain`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

/// `gdr explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Id of a check, an error message, a log file, or '-' for standard input
    ///
    /// The argument is tried as a file, then as a check id, then as a message; quote messages. Causes are
    /// searched in the first 64 MiB of a file. A log of NCCL shows its job first: the path of each pair of ranks.
    #[arg(allow_hyphen_values = true, value_name = "ID|TEXT|FILE|-")]
    pub what: OsString,

    /// Profiles to check the machine against, as with doctor; may be given several times
    #[arg(long, value_name = "NAME|FILE", default_value = crate::profile::DEFAULT)]
    pub profile: Vec<String>,

    /// Only name causes and checks; do not inspect a machine
    #[arg(long)]
    pub no_run: bool,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExplainFormat::Table)]
    pub format: ExplainFormat,
}

/// Output format of explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExplainFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.explain/1.
    Json,
}
