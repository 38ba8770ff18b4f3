//! Arguments of `gdr explain`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::MaskOptions;

/// `gdr explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Id of a check, an error message, a log file, or '-' for standard input
    ///
    /// The argument is tried as a file, then as a check id, then as a message; quote messages. Causes are
    /// searched in the first 64 MiB of a file. A log of NCCL shows its job first: the path of each pair of ranks.
    #[arg(
        allow_hyphen_values = true,
        value_name = "ID|TEXT|LOG|-",
        required_unless_present = "job",
        conflicts_with = "job"
    )]
    pub what: Option<OsString>,

    /// More logs of the same job, such as one of each rank
    #[arg(value_name = "LOG", conflicts_with = "job")]
    pub more: Vec<OsString>,

    /// Read all files in this directory and below it: the logs of one job
    ///
    /// They are read in the order of their names, 8192 at most. Hidden files and links to directories are left out.
    #[arg(long, value_name = "DIR")]
    pub job: Option<PathBuf>,

    /// Profiles to check the machine against, as with doctor; may be given several times
    #[arg(long, value_name = "NAME|FILE", default_value = crate::profile::DEFAULT)]
    pub profile: Vec<String>,

    /// Only name causes and checks; do not inspect a machine
    #[arg(long)]
    pub no_run: bool,

    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExplainFormat::Table)]
    pub format: ExplainFormat,

    /// Masks.
    #[command(flatten)]
    pub masks: MaskOptions,
}

/// Output format of explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExplainFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.explain/1.
    Json,
    /// One page for a browser, with the matrix of a job's ranks.
    Html,
    /// For CI systems: JUnit XML.
    Junit,
}
