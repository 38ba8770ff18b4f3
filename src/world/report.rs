//! The files of a support report, with links resolved within it.
//!
//! A report holds a part of a machine. A path is absent only if the report says so, or if it names all of the
//! directory and not this path; otherwise it is unknown.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::files::{FileError, Files, OpenFile, failed};
use super::replay::Replay;
use crate::model::{Fact, Failure, FileKind, FileState, Question, Recorded, Why};

/// The kernel's limit.
const MOST_LINKS: usize = 40;

pub struct Report(Replay);

impl Report {
    pub fn new(files: BTreeMap<String, Recorded>) -> Self {
        Self(Replay::new(files))
    }

    /// The path without links; the last component stays a link where the question is about the link.
    fn resolved(&self, question: Question, path: &Path) -> Result<PathBuf, FileError> {
        let fail = |failure: &Failure| Err(FileError::new(question, path, failed(failure)));
        let errno = |errno: rustix::io::Errno| Failure::Errno(errno.raw_os_error());
        let mut rest: VecDeque<String> = names(path);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            if self
                .0
                .recorded(&at)
                .is_some_and(|recorded| lacks(recorded, &name))
            {
                return fail(&errno(rustix::io::Errno::NOENT));
            }
            at.push(&name);
            let Some(recorded) = self.0.recorded(&at) else {
                continue;
            };
            if let Some(failure) = recorded.errors.get(Question::State) {
                return fail(failure);
            }
            if let Some(target) = &recorded.link
                && (question != Question::Link || !rest.is_empty())
            {
                links += 1;
                if links > MOST_LINKS {
                    return fail(&errno(rustix::io::Errno::LOOP));
                }
                let target = Path::new(target);
                match target.is_absolute() {
                    true => at = PathBuf::from("/"),
                    false => _ = at.pop(),
                }
                for name in names(target).into_iter().rev() {
                    rest.push_front(name);
                }
            }
        }
        Ok(at)
    }
}

/// Whether this is a directory with all its names, and without this one.
fn lacks(recorded: &Recorded, name: &str) -> bool {
    let is_whole = recorded
        .state
        .is_some_and(|state| state.kind == FileKind::Directory);
    let names = recorded.names.as_ref().filter(|_| is_whole);
    names.is_some_and(|names| !names.iter().any(|held| held == name))
}

fn names(path: &Path) -> VecDeque<String> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::ParentDir => Some("..".to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

impl Files for Report {
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>, FileError> {
        self.0.open(&self.resolved(Question::Open, path)?)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FileError> {
        let at = self.resolved(Question::Link, path)?;
        let is_file = self
            .0
            .recorded(&at)
            .is_some_and(|held| held.link.is_none() && held.state.is_some());
        match is_file {
            true => Err(FileError::new(
                Question::Link,
                path,
                io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error()),
            )),
            false => self.0.read_link(&at),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, FileError> {
        self.0.list(&self.resolved(Question::List, path)?)
    }

    fn state(&self, path: &Path) -> Result<FileState, FileError> {
        self.0.state(&self.resolved(Question::State, path)?)
    }

    fn usable(&self, _: &Path) -> Fact<bool> {
        Fact::Unknown(Why::NotCovered)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.0.read(&self.resolved(Question::Read, path)?)
    }
}
