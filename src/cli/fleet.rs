//! Arguments of `gdr fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `gdr fleet`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Fleet {
    /// What to do.
    #[command(subcommand)]
    pub what: FleetWhat,
}

/// The commands on many nodes.
#[derive(Debug, Subcommand)]
pub enum FleetWhat {
    /// Merge reports of doctor and probe that were collected from many nodes
    ///
    /// It names nodes that are missing, dead or of another version, groups nodes that are alike, and shows what a few do
    /// not share with the others: facts, figures, links.
    Report(FleetReportOptions),
}

/// `gdr fleet report`.
#[derive(Debug, Args)]
pub struct FleetReportOptions {
    /// JSON of gdr doctor and gdr probe, one document a file, or directories of such files; compressed files are read too
    #[arg(value_name = "FILE|DIR", required = true)]
    pub sources: Vec<PathBuf>,

    /// Nodes that must have a report, as in n[1-64]; the others are named as missing
    #[arg(long, value_name = "LIST")]
    pub nodes: Option<String>,

    /// Output format of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = FleetFormat::Table)]
    pub format: FleetFormat,
}

/// Output format of a fleet's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// For people.
    Table,
    /// For programs: schema gdr.fleet/1.
    Json,
}
