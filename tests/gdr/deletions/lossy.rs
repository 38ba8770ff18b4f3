//! Files of a machine with one path lost: not there, denied, unreadable, or not in the snapshot.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gdr::model::{Fact, FileState, Question, Why};
use gdr::world::{FileError, Files, OpenFile};

/// What happens to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// It does not exist, nor does anything below it, and its directory does not list it.
    Absent,
    /// Permission is denied for it and for everything below it.
    Denied,
    /// Permission is denied for it alone: a directory that cannot be listed, a file in one that can.
    DeniedAlone,
    /// A user reads the first 64 bytes of it, as of configuration space.
    DeniedPast64,
    /// Reading it fails with EIO.
    Broken,
    /// The snapshot has no answer for it.
    Forgotten,
}

pub struct Lossy {
    pub files: Arc<dyn Files>,
    pub path: PathBuf,
    pub how: How,
}

const PAST: u64 = 64;

impl Lossy {
    fn is_lost(&self, path: &Path) -> bool {
        match self.how {
            How::Absent | How::Denied => path.starts_with(&self.path),
            How::DeniedAlone | How::Broken | How::Forgotten => path == self.path,
            How::DeniedPast64 => false,
        }
    }

    fn error(&self) -> io::Error {
        let errno = |errno: rustix::io::Errno| io::Error::from(errno);
        match self.how {
            How::Absent => errno(rustix::io::Errno::NOENT),
            How::Denied | How::DeniedAlone | How::DeniedPast64 => errno(rustix::io::Errno::ACCESS),
            How::Broken => errno(rustix::io::Errno::IO),
            How::Forgotten => io::Error::new(io::ErrorKind::Unsupported, "not in this snapshot"),
        }
    }

    fn ask<T>(
        &self,
        question: Question,
        path: &Path,
        answer: impl FnOnce(&dyn Files) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        if self.is_lost(path) {
            Err(FileError::new(question, path, self.error()))
        } else {
            answer(self.files.as_ref())
        }
    }
}

impl Files for Lossy {
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>, FileError> {
        let file = self.ask(Question::Open, path, |files| files.open(path))?;
        Ok(if self.how == How::DeniedPast64 && path == self.path {
            Box::new(Start(file))
        } else {
            file
        })
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FileError> {
        self.ask(Question::Link, path, |files| files.read_link(path))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, FileError> {
        let mut names = self.ask(Question::List, path, |files| files.list(path))?;
        if self.how == How::Absent && self.path.parent() == Some(path) {
            names.retain(|name| self.path.file_name() != Some(name.as_ref()));
        }
        Ok(names)
    }

    /// As the machine's own files do it: a snapshot keeps names, a report resolves links.
    fn list_kept(
        &self,
        path: &Path,
        keep: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, FileError> {
        let mut names = self.ask(Question::List, path, |files| files.list_kept(path, keep))?;
        if self.how == How::Absent && self.path.parent() == Some(path) {
            names.retain(|name| self.path.file_name() != Some(name.as_ref()));
        }
        Ok(names)
    }

    fn state(&self, path: &Path) -> Result<FileState, FileError> {
        // Nobody needs a right on a file to look at it.
        match self.how {
            How::DeniedAlone => self.files.state(path),
            _ => self.ask(Question::State, path, |files| files.state(path)),
        }
    }

    fn usable(&self, path: &Path) -> Fact<bool> {
        match (self.is_lost(path), self.how) {
            (false, _) => self.files.usable(path),
            (true, How::Denied | How::DeniedAlone) => Fact::Known(false),
            (true, _) => Fact::Unknown(Why::NotCovered),
        }
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.ask(Question::Read, path, |files| files.read(path))
    }

    fn reduced(
        &self,
        path: &Path,
        most: usize,
        keep: &dyn Fn(Vec<u8>) -> Vec<u8>,
    ) -> Result<Vec<u8>, FileError> {
        self.ask(Question::Read, path, |files| files.reduced(path, most, keep))
    }

    fn streamed(&self, path: &Path, reduce: &gdr::world::Reduce<'_>) -> Result<String, FileError> {
        self.ask(Question::Read, path, |files| files.streamed(path, reduce))
    }
}

/// The first bytes of a file.
struct Start(Box<dyn OpenFile>);

impl OpenFile for Start {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        match PAST.checked_sub(offset).and_then(|left| usize::try_from(left).ok()) {
            // The kernel ends the file there.
            None | Some(0) => Ok(0),
            Some(left) => {
                let most = left.min(out.len());
                self.0.read_at(offset, &mut out[..most])
            }
        }
    }
}
