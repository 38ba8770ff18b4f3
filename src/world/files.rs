//! Files as a collector sees them: absolute paths in, bytes or a typed error out.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::{Fact, Failure, FileState, Question, Why};

/// The files of a world. Paths are absolute.
pub trait Files: Send + Sync {
    /// Opens a regular file for reading.
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>, FileError>;

    /// The target of a symbolic link, as it is written.
    fn read_link(&self, path: &Path) -> Result<PathBuf, FileError>;

    /// The names in a directory, sorted by bytes. A name that is no UTF-8 is left out: none of the kernel's is.
    fn list(&self, path: &Path) -> Result<Vec<String>, FileError>;

    /// Those names in a directory that `keep` keeps, in a world that records too: the others may be private.
    fn list_kept(
        &self,
        path: &Path,
        keep: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, FileError> {
        let mut names = self.list(path)?;
        names.retain(|name| keep(name));
        Ok(names)
    }

    /// What a path leads to, links followed.
    fn state(&self, path: &Path) -> Result<FileState, FileError>;

    /// Whether this process may read and write what is there; not covered for a recorded machine.
    fn usable(&self, path: &Path) -> Fact<bool>;

    /// A whole file, of at most 16 MiB.
    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        let file = self.open(path)?;
        let mut bytes = vec![0; 4096];
        let mut filled = 0;
        loop {
            let count = file
                .read_at(filled as u64, &mut bytes[filled..])
                .map_err(|source| FileError::new(Question::Read, path, source))?;
            filled += count;
            if count == 0 {
                bytes.truncate(filled);
                return Ok(bytes);
            }
            if filled == bytes.len() {
                if filled >= MOST {
                    return Err(FileError::new(
                        Question::Read,
                        path,
                        io::ErrorKind::FileTooLarge.into(),
                    ));
                }
                bytes.resize(filled * 2, 0);
            }
        }
    }

    /// What `keep` keeps of the first `most` bytes of a file, in a world that records too: large and private files are
    /// reduced where they are read. What is kept, kept again, is the same.
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

    /// What `reduce` makes of a file that it reads as a stream from the start: too large to hold. A world that records
    /// writes down what it made, and a replay answers with that.
    fn streamed(&self, path: &Path, reduce: &Reduce<'_>) -> Result<String, FileError> {
        let file = self.open(path)?;
        reduce(&mut Stream { file, at: 0 })
            .map_err(|source| FileError::new(Question::Read, path, source))
    }

    /// A part of a file; shorter where the file ends.
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

    /// A whole file as text without its trailing white space; bytes that are no UTF-8 are an error.
    fn text(&self, path: &Path) -> Result<String, FileError> {
        as_text(path, self.read(path)?)
    }

    /// Whether a path leads to something; an error where that cannot be told.
    fn exists(&self, path: &Path) -> Result<bool, FileError> {
        match self.state(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_absent() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Bytes as text without its trailing white space.
pub fn as_text(path: &Path, bytes: Vec<u8>) -> Result<String, FileError> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.trim_end().to_owned()),
        Err(_) => Err(FileError::new(
            Question::Read,
            path,
            io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"),
        )),
    }
}

/// The largest file that is read whole: none of those gdr reads comes near.
pub const MOST: usize = 16 << 20;

/// A file open for reading at any place.
pub trait OpenFile {
    /// Reads from `offset` on; 0 where the file ends.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize>;
}

/// What makes a text of a stream.
pub type Reduce<'a> = dyn Fn(&mut dyn io::Read) -> io::Result<String> + 'a;

/// An open file, read from its start to its end.
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

/// A file could not be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot {} {}", operation(*asked), path.display())]
pub struct FileError {
    asked: Question,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl FileError {
    /// The error of an operation on a path.
    pub fn new(asked: Question, path: &Path, source: io::Error) -> Self {
        Self {
            asked,
            path: path.to_owned(),
            source,
        }
    }

    pub fn asked(&self) -> Question {
        self.asked
    }

    /// The error as a snapshot holds it.
    pub fn failure(&self) -> Failure {
        failure(&self.source)
    }

    /// Whether there is nothing at this path.
    pub fn is_absent(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
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

    /// The error and its cause in one sentence.
    pub fn sentence(&self) -> String {
        let cause = self.source.to_string();
        // The operating system's words without its number.
        let cause = cause.split(" (os error").next().unwrap_or_default();
        format!("{self}: {cause}")
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn operation(asked: Question) -> &'static str {
    match asked {
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

/// An error as a snapshot holds it.
pub fn failure(error: &io::Error) -> Failure {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => Failure::Errno(number),
        (None, io::ErrorKind::FileTooLarge) => Failure::TooLarge,
        (None, io::ErrorKind::Unsupported) => Failure::NotHeld,
        (None, _) => Failure::Invalid(error.to_string()),
    }
}

/// The error that a snapshot holds.
pub fn failed(failure: &Failure) -> io::Error {
    match failure {
        Failure::Errno(number) => io::Error::from_raw_os_error(*number),
        Failure::TooLarge => io::ErrorKind::FileTooLarge.into(),
        Failure::NotHeld => io::Error::new(
            io::ErrorKind::Unsupported,
            "the snapshot does not hold it; a newer gdr asks for more: take the snapshot again with this one",
        ),
        Failure::Invalid(words) => io::Error::new(io::ErrorKind::InvalidData, words.clone()),
    }
}
