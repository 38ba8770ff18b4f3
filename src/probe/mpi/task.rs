//! The work of a child of `gdr probe mpi`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::probe::depth::Terms;
use crate::probe::target::Target;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub library: Library,
    pub part: Part,
    /// The GPU whose memory is sent; `None` for host memory only.
    pub gpu: Option<Target>,
    pub terms: Terms,
}

/// Where MPI's functions come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// Two threads of the child are the ranks.
    Sim,
    /// The first of these files that can be loaded.
    Files(Vec<Candidate>),
}

/// A file that may be the launcher's library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// A path, or a name for the loader's search.
    pub file: PathBuf,
    /// Why this file.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A message of this process to itself, without the launcher.
    Trial,
    /// A rank of the launcher's job.
    Rank {
        /// The launcher, for the report.
        launcher: Option<String>,
        /// The rank by the launcher's variables, for the names of results.
        rank: u32,
        /// Number of ranks by the launcher's variables, if they say it.
        size: Option<u32>,
    },
}
