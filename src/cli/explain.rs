//! What a user can type after `gdr explain`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

/// `gdr explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The id of a check, an error line, a log file, or '-' for standard input
    ///
    /// A file where there is one of that name, else a check where there is one of that id, else a text: put it in quotes.
    /// Of a file the first 64 MiB are read.
    #[arg(allow_hyphen_values = true, value_name = "ID|TEXT|FILE|-")]
    pub what: OsString,

    /// What the machine should be ready for, as with doctor; may be given several times
    #[arg(long, value_name = "NAME|FILE", default_value = crate::profile::DEFAULT)]
    pub profile: Vec<String>,

    /// Only name causes and checks: look at no machine
    #[arg(long)]
    pub no_run: bool,

    /// How to print it
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExplainFormat::Table)]
    pub format: ExplainFormat,
}

/// How explain prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExplainFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.explain/1.
    Json,
}
