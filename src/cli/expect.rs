//! Arguments of `gdr expect`.

use std::path::PathBuf;

use clap::Args;

/// `gdr expect`.
#[derive(Debug, Args)]
pub struct ExpectOptions {
    /// Good machines: snapshots, dumps, support reports, JSON of gdr probe for bandwidths, or directories of such files; without any,
    /// this machine
    #[arg(value_name = "FILE|DIR", conflicts_with_all = ["sysroot", "from"])]
    pub sources: Vec<PathBuf>,

    /// Expect what most of these machines have, and the median of each bandwidth; machines with failures are left out, and if they
    /// are half of all, nothing is written
    #[arg(long, requires = "sources")]
    pub majority: bool,

    /// Output file; '-' is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub write: PathBuf,

    /// Replace an existing file, and accept a machine with failures or with facts that cannot be read
    #[arg(long)]
    pub force: bool,

    /// Name of the profile
    #[arg(long, value_name = "NAME", default_value = "site")]
    pub name: String,

    /// Profiles that it includes; 'none' for none
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = crate::profile::DEFAULT)]
    pub include: Vec<String>,

    /// How far a bandwidth may be below that of the good machine, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=90))]
    pub tolerance: u8,
}
