//! File access of collectors: absolute paths in, bytes or typed errors out.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::model::{Fact, Failure, FileState, Question, Why};

/// The files of a world, by absolute path.
pub trait Files: Send + Sync {
    /// Opens a regular file for reading.
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>, FileError>;

    /// The literal target of a symbolic link.
    fn read_link(&self, path: &Path) -> Result<PathBuf, FileError>;

    /// A directory's names, sorted by bytes; skips names that are not UTF-8.
    fn list(&self, path: &Path) -> Result<Vec<String>, FileError>;

    /// The names that `keep` accepts; others may be private and are not recorded.
    fn list_kept(
        &self,
        path: &Path,
        keep: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, FileError> {
        let mut names = self.list(path)?;
        names.retain(|name| keep(name));
        Ok(names)
    }

    /// The state of a path, links followed.
    fn state(&self, path: &Path) -> Result<FileState, FileError>;

    /// True if this process may read and write the file; unknown for recorded machines.
    fn usable(&self, path: &Path) -> Fact<bool>;

    /// A whole file, up to 16 MiB.
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        let failed = |source| FileError::new(Question::Read, path, source);
        let file = Stream { file: self.open(path)?, at: 0 };
        // A page, because the kernel writes most attributes of sysfs at once.
        let mut bytes = Vec::with_capacity(4096);
        file.take(MOST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > MOST { Err(failed(io::ErrorKind::FileTooLarge.into())) } else { Ok(bytes) }
    }

    /// The part that `keep` returns of a file's first `most` bytes; only that is recorded, because files may be
    /// large or private. `keep` must be idempotent.
    fn reduced(
        &self,
        path: &Path,
        most: usize,
        keep: &dyn Fn(Vec<u8>) -> Vec<u8>,
    ) -> Result<Vec<u8>, FileError> {
        let bytes = match most {
            MOST => self.read(path),
            most => self.read_range(path, 0, most),
        };
        bytes.map(keep)
    }

    /// The text that `reduce` makes of a file too large to hold; only that is recorded, and replayed.
    fn streamed(&self, path: &Path, reduce: &Reduce<'_>) -> Result<String, FileError> {
        let file = self.open(path)?;
        reduce(&mut Stream { file, at: 0 })
            .map_err(|source| FileError::new(Question::Read, path, source))
    }

    /// A range of a file; shorter at its end.
    fn read_range(&self, path: &Path, offset: u64, length: usize) -> Result<Vec<u8>, FileError> {
        let file = self.open(path)?;
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match file.read_at(offset + filled as u64, &mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(source) => return Err(FileError::new(Question::Read, path, source)),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// A whole file as UTF-8 without trailing white space.
    fn text(&self, path: &Path) -> Result<String, FileError> {
        as_text(path, self.read(path)?)
    }

    /// True if a path exists; an error if that cannot be determined.
    fn exists(&self, path: &Path) -> Result<bool, FileError> {
        match self.state(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

pub fn as_text(path: &Path, bytes: Vec<u8>) -> Result<String, FileError> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(_) => Err(FileError::new(
            Question::Read,
            path,
            io::Error::new(io::ErrorKind::InvalidData, "not UTF-8 text"),
        )),
    }
}

/// Limit of files read whole, far above real ones.
pub const MOST: usize = 16 << 20;

pub trait OpenFile {
    /// Reads at `offset`; 0 at the end.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;
}

/// Reduces a stream to a text.
pub type Reduce<'a> = dyn Fn(&mut dyn io::Read) -> io::Result<String> + 'a;

/// Reads an open file sequentially.
struct Stream {
    file: Box<dyn OpenFile>,
    at: u64,
}

impl io::Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.at, out)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {} {}", operation(*question), path.display())]
pub struct FileError {
    question: Question,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl FileError {
    pub fn new(question: Question, path: &Path, source: io::Error) -> Self {
        Self { question, path: path.to_owned(), source }
    }

    pub fn question(&self) -> Question {
        self.question
    }

    /// The error as stored in a snapshot.
    pub fn failure(&self) -> Failure {
        failure(&self.source)
    }

    pub fn is_absent(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }

    /// True if symbolic links lead in a circle.
    pub fn is_link_cycle(&self) -> bool {
        self.failure() == Failure::Errno(rustix::io::Errno::LOOP.raw_os_error())
    }

    /// Why a fact from this file is unknown.
    pub fn why(&self) -> Why {
        match self.source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::Unsupported => {
                Why::NotCovered
            }
            io::ErrorKind::PermissionDenied => Why::Denied,
            io::ErrorKind::TimedOut => Why::TimedOut,
            _ => Why::Broken,
        }
    }

    /// The error with its cause.
    pub fn sentence(&self) -> String {
        let cause = self.source.to_string();
        // Without the operating system's error number.
        let cause = cause.split(" (os error").next().unwrap_or_default();
        format!("{self}: {cause}")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The error of a support report.
    pub fn in_report(self) -> Self {
        match self.failure() {
            Failure::NotHeld => {
                Self { source: io::Error::new(io::ErrorKind::Unsupported, NotInReport), ..self }
            }
            _ => self,
        }
    }

    /// True if a support report lacks the path.
    pub fn is_not_in_report(&self) -> bool {
        let source = self.source.get_ref();
        source.is_some_and(|source| source.is::<NotInReport>())
    }
}

fn operation(question: Question) -> &'static str {
    match question {
        Question::Link => "read the link",
        Question::List => "list",
        Question::Read | Question::Part => "read",
        Question::Open => "open",
        Question::State => "look at",
        Question::Write => "change",
        Question::Trust => "rely on",
        Question::Root => "use as a root",
    }
}

/// A support report lacks the path, as it lacks most.
#[derive(Debug, thiserror::Error)]
#[error("not in this report")]
struct NotInReport;

/// No collector asked for the path when the machine was recorded.
const NOT_HELD: &str = "not in this snapshot; take it again with this version of gdr";

pub fn failure(error: &io::Error) -> Failure {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => Failure::Errno(number),
        (None, io::ErrorKind::FileTooLarge) => Failure::TooLarge,
        (None, io::ErrorKind::Unsupported) => Failure::NotHeld,
        (None, _) => Failure::Invalid(error.to_string()),
    }
}

pub fn failed(failure: &Failure) -> io::Error {
    match failure {
        Failure::Errno(number) => io::Error::from_raw_os_error(*number),
        Failure::TooLarge => io::ErrorKind::FileTooLarge.into(),
        Failure::NotHeld => io::Error::new(io::ErrorKind::Unsupported, NOT_HELD),
        Failure::Invalid(words) => io::Error::new(io::ErrorKind::InvalidData, words.clone()),
    }
}
