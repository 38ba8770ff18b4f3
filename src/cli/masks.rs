//! The option with which a command masks what it reports.

use std::path::PathBuf;

use clap::Args;

/// Masks of a report.
#[derive(Debug, Args)]
pub struct MaskOptions {
    /// Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file
    ///
    /// The masks are those of gdr snapshot and gdr fleet report with this key. Without the key nobody can find out which name a
    /// mask stands for by trying names, and whoever has the key can: keep it.
    #[arg(long, value_name = "FILE")]
    pub mask_key: Option<PathBuf>,
}
