//! The work of a child of `gdr probe mpi`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::library::{Candidate, found};
use crate::probe::rendezvous::{LaunchedProcess, from_environment};
use crate::probe::target::Target;
use crate::probe::terms::Terms;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub library: Library,
    pub part: Part,
    /// The GPU whose memory is sent; `None` for host memory only.
    pub gpu: Option<Target>,
    pub terms: Terms,
}

impl Task {
    /// This process's rank, without a GPU.
    pub fn of_rank(place: &LaunchedProcess, terms: Terms) -> Self {
        Self { library: Library::Files(found()), part: Part::of_rank(place), gpu: None, terms }
    }

    /// Each of the `ranks` that this launcher starts, without a GPU.
    pub fn below(launcher: &Path, ranks: u32, terms: Terms) -> Self {
        Self {
            library: Library::Launcher,
            part: Part::Rank {
                launcher: Some(launcher.display().to_string()),
                rank: 0,
                size: Some(ranks),
            },
            gpu: None,
            terms,
        }
    }

    /// True if this process writes the output.
    pub fn writes(&self) -> bool {
        let place = from_environment(&|name| std::env::var(name).ok());
        self.library != Library::Launcher
            || place.is_ok_and(|place| place.is_none_or(|place| place.rank == 0))
    }
}

/// Where MPI's functions come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// Two threads of the child are the ranks.
    Sim,
    /// The first of these files that can be loaded.
    Files(Vec<Candidate>),
    /// That of the launcher which starts the children themselves. They share its output, and only rank 0 writes.
    Launcher,
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

impl Part {
    /// The rank at this place.
    pub fn of_rank(place: &LaunchedProcess) -> Self {
        Self::Rank {
            launcher: Some(place.launcher.to_string()),
            rank: place.rank,
            size: place.size,
        }
    }
}
