//! The machine under inspection (live, directory or snapshot): its files, vendor libraries and tools. A recorder
//! turns any of them into a snapshot.
//!
//! Collectors take only `&World`, so they work the same on every kind.

mod child;
mod command;
mod executor;
mod files;
mod host;
mod libraries;
mod record;
mod replay;
mod report;
mod tools;
mod tree;
mod walk;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

pub use executor::{
    CommandLine, Executor, FileImage, Holder, LARGEST, Lock, Locked, PrivateDirectory, Program, Ran,
};
pub use files::{FileError, Files, MOST, OpenFile, Reduce, as_text};
pub use libraries::{Libraries, NetworkQuery, NvmlQuery, Reading, VerbsQuery, answer_for_parent};
pub use tools::Tools;

use crate::model::{Host, Recorded, RecordedLibraries, SNAPSHOT_SCHEMA, Snapshot};
use libraries::Answers;
use record::{Log, Recorder};
use replay::Replay;
use report::Report;
use tools::ToolAnswers;
use tree::Tree;

pub struct World {
    pub files: Box<dyn Files>,
    pub libraries: Libraries,
    pub tools: Tools,
    source: Source,
}

enum Source {
    Live,
    /// A directory or a report, by its name. Its header is read from its files.
    Directory(String),
    /// A snapshot, or a recorded world, whose header was read at the start.
    Recorded(Host),
}

/// The answers recorded so far.
pub struct Record {
    files: Log,
    libraries: Answers,
    tools: ToolAnswers,
    host: Host,
}

impl World {
    /// This machine; `deadline` is the timeout of each vendor library.
    pub fn live(deadline: Duration) -> Result<Self, FileError> {
        Ok(Self {
            files: Box::new(Tree::live()?),
            libraries: Libraries::live(deadline),
            tools: Tools::live(deadline),
            source: Source::Live,
        })
    }

    /// A directory laid out like a root. Links are resolved within it.
    pub fn directory(root: &Path) -> Result<Self, FileError> {
        let files = Tree::directory(root)?;
        Ok(Self {
            libraries: Libraries::laid_out(|path| files.read(Path::new(path)).ok()),
            tools: Tools::laid_out(|path| files.read(Path::new(path)).ok()),
            files: Box::new(files),
            source: Source::Directory(root.display().to_string()),
        })
    }

    pub fn snapshot(snapshot: Snapshot) -> Self {
        Self {
            files: Box::new(Replay::new(snapshot.files)),
            libraries: Libraries::recorded(snapshot.libraries),
            tools: Tools::recorded(snapshot.tools),
            source: Source::Recorded(snapshot.host),
        }
    }

    /// The part of a machine that a support report holds: files, and nothing that libraries or tools answered.
    /// `source` names the report.
    pub fn report(files: BTreeMap<String, Recorded>, source: String) -> Self {
        Self {
            files: Box::new(Report::new(files)),
            libraries: Libraries::recorded(RecordedLibraries::default()),
            tools: Tools::recorded(BTreeMap::new()),
            source: Source::Directory(source),
        }
    }

    /// Adds a recorder.
    pub fn recording(self) -> (Self, Record) {
        let record = Record {
            files: Log::default(),
            libraries: Answers::default(),
            tools: ToolAnswers::default(),
            host: self.host().original(),
        };
        let world = Self {
            files: Box::new(Recorder::new(self.files, record.files.clone())),
            libraries: self.libraries.recording(record.libraries.clone()),
            tools: self.tools.recording(record.tools.clone()),
            source: Source::Recorded(record.host.clone()),
        };
        (world, record)
    }

    pub fn is_live(&self) -> bool {
        matches!(self.source, Source::Live)
    }

    pub fn host(&self) -> Host {
        match &self.source {
            Source::Live => host::live(),
            Source::Directory(root) => host::recorded(self.files.as_ref(), root),
            Source::Recorded(host) => host.clone(),
        }
    }
}

impl Record {
    /// The snapshot, taken at `taken` (UTC, RFC 3339).
    pub fn finish(self, taken: String) -> Snapshot {
        Snapshot {
            schema: SNAPSHOT_SCHEMA.to_owned(),
            gdr: env!("CARGO_PKG_VERSION").to_owned(),
            taken,
            masked: false,
            host: self.host,
            files: self.files.take(),
            libraries: self.libraries.take(),
            tools: self.tools.take(),
        }
    }
}
