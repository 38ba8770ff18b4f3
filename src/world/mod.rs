//! The one door to the machine: files, vendor libraries, tools. Live, or a directory laid out like a machine.
//!
//! Collectors take `&World` and nothing else, so that they run the same on every kind of world.

mod child;
mod files;
mod host;
mod libraries;
mod tools;
mod tree;
mod walk;

use std::path::Path;
use std::time::Duration;

pub use files::{FileError, FileKind, FileState, Files, OpenFile};
pub use libraries::{Libraries, MappingReading, NvmlReading, NvmlWant, Reading, answer_for_parent};
pub use tools::Tools;

use crate::model::Host;
use tree::Tree;

/// A machine to look at.
pub struct World {
    /// Its files.
    pub files: Box<dyn Files>,
    /// Its vendor libraries.
    pub libraries: Libraries,
    /// Its command-line tools.
    pub tools: Tools,
    source: Source,
}

enum Source {
    Live,
    Directory(String),
}

impl World {
    /// The machine gdr runs on. A vendor library may take as long as `deadline`.
    pub fn live(deadline: Duration) -> Result<Self, FileError> {
        Ok(Self {
            files: Box::new(Tree::live()?),
            libraries: Libraries::Live(deadline),
            tools: Tools,
            source: Source::Live,
        })
    }

    /// A directory laid out like a machine's root. Links are resolved inside it, never out of it.
    pub fn directory(root: &Path) -> Result<Self, FileError> {
        let files = Tree::directory(root)?;
        Ok(Self {
            libraries: Libraries::Recorded(files.read(Path::new(libraries::RECORDED)).ok()),
            files: Box::new(files),
            tools: Tools,
            source: Source::Directory(root.display().to_string()),
        })
    }

    /// Whether this is the machine gdr runs on.
    pub fn is_live(&self) -> bool {
        matches!(self.source, Source::Live)
    }

    /// The header of a report.
    pub fn host(&self) -> Host {
        match &self.source {
            Source::Live => host::live(),
            Source::Directory(root) => host::recorded(self.files.as_ref(), root),
        }
    }
}
