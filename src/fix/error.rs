//! Errors of repairs and undos.

use std::path::PathBuf;

use crate::world::{FileError, Holder};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", .0.sentence())]
    File(FileError),
    #[error("another gdr, or a program started by it, is changing this machine: {} holds {}; wait until it ends", list(.holders), .lock.display())]
    Busy { lock: PathBuf, holders: Vec<Holder> },
    #[error("repair {0} was interrupted: run 'gdr undo {0}', then try again")]
    Unfinished(u32),
    #[error("invalid journal {}: {why}; move it away to continue without it", path.display())]
    Journal { path: PathBuf, why: String },
    #[error("{}, the saved copy of the original file, cannot be used: {why}", path.display())]
    Saved { path: PathBuf, why: String },
    #[error("there is no repair {0}: see 'gdr undo --list'")]
    NoSuchRepair(u32),
    #[error("there is no repair to undo")]
    NothingToUndo,
    #[error("{} has the highest possible number: move it away", .0.display())]
    Numbers(PathBuf),
    /// An undo could not record its next step.
    #[error("{0}; the steps undone so far stay undone. Fix this, then run 'gdr undo' again")]
    Interrupted(Box<Error>),
    /// A program of a step is not on this machine, and so did not run.
    #[error("{0}")]
    NotInstalled(String),
    /// The machine differs from the plan, before or after a step.
    #[error("{0}")]
    Unexpected(String),
}

// Not by `#[from]`: the sentence says what the cause says, and a report prints causes too.
impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

fn list(holders: &[Holder]) -> String {
    match holders {
        [] => "an unknown process".to_owned(),
        holders => holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
