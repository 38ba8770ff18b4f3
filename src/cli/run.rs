//! Arguments of `gdr run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// `gdr run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Keep the logs of NCCL in this directory, which is created; the ranks of one job may share it
    ///
    /// 'gdr explain --job DIR' then shows the whole job. Use a new directory for each job. Without it the logs are
    /// removed at the end.
    #[arg(long, value_name = "DIR")]
    pub log: Option<PathBuf>,

    /// The program to run, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
