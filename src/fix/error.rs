//! Why a repair could not be made or undone.

use std::path::PathBuf;

use crate::world::{FileError, Holder};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or changed.
    #[error("{}", .0.sentence())]
    File(FileError),
    /// Others change the machine right now.
    #[error("another gdr, or a program that it started, is changing this machine: {} holds {}; wait until it ends", list(.holders), .lock.display())]
    Busy {
        lock: PathBuf,
        /// The processes that hold it.
        holders: Vec<Holder>,
    },
    /// An earlier repair was interrupted.
    #[error("repair {0} was interrupted: undo it with 'gdr undo {0}' first, then try again")]
    Unfinished(u32),
    /// A journal cannot be read.
    #[error("the journal {} cannot be used: {why}. Move it away to go on without it", path.display())]
    Journal {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What a repair replaced cannot be read.
    #[error("{}, the copy of what was there before, cannot be used: {why}", path.display())]
    Saved {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such journal.
    #[error("there is no repair {0}: 'gdr undo --list' shows those that there are")]
    NoSuchRepair(u32),
    /// There is nothing that could be undone.
    #[error("there is no repair to undo")]
    NothingToUndo,
    /// There is no number after the last journal's.
    #[error("{} has the last number that there is: move it away", .0.display())]
    Numbers(PathBuf),
    /// The next step of an undo could not be recorded.
    #[error(
        "{0}; what was undone until now stays undone. Run 'gdr undo' again once this is resolved"
    )]
    Interrupted(Box<Error>),
    /// A step found or left what the plan does not say.
    #[error("{0}")]
    Surprise(String),
}

// Not by `#[from]`: the sentence says what the cause says, and a report prints causes too.
impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

fn list(holders: &[Holder]) -> String {
    match holders {
        [] => "a process that cannot be seen from here".to_owned(),
        holders => holders
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
