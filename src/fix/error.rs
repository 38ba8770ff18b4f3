//! Why a repair could not be made or taken back.

use crate::world::FileError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be had or changed.
    #[error("{}", .0.sentence())]
    File(#[from] FileError),
    /// Somebody else changes the machine right now.
    #[error("another gdr is changing this machine (it holds {0}): wait for it")]
    Busy(&'static str),
    /// An earlier repair was cut short.
    #[error("repair {0} was cut short: take it back with 'gdr undo {0}' first, then try again")]
    Unfinished(u32),
    /// A journal cannot be read.
    #[error("the journal {path} cannot be used: {why}")]
    Journal {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such journal.
    #[error("there is no repair {0}: 'gdr undo --list' shows those that there are")]
    NoSuchRepair(u32),
    /// There is nothing that could be taken back.
    #[error("there is no repair to take back")]
    NothingToUndo,
    /// A step found or left what the plan does not say.
    #[error("{0}")]
    Surprise(String),
}
