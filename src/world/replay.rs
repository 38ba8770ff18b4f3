//! The files of a snapshot, which give the recorded answers.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{FileError, Files, OpenFile, Reduce, failed};
use crate::model::{Fact, Failure, FileState, Question, Recorded};

pub struct Replay(Arc<BTreeMap<String, Recorded>>);

impl Replay {
    pub fn new(files: BTreeMap<String, Recorded>) -> Self {
        Self(Arc::new(files))
    }

    /// What is recorded of a path.
    pub fn recorded(&self, path: &Path) -> Option<&Recorded> {
        self.0.get(path.to_str()?)
    }

    /// The recorded answer or error; an error if there is none.
    fn answer<T>(
        &self,
        question: Question,
        path: &Path,
        value: impl FnOnce(&Recorded) -> Option<T>,
    ) -> Result<T, FileError> {
        let recorded = self.recorded(path);
        if let Some(value) = recorded.and_then(value) {
            return Ok(value);
        }
        let error = |question: Question| Some((question, failed(recorded?.errors.get(question)?)));
        let (question, source) = error(question)
            // A file that could not be opened could not be read.
            .or_else(|| error(Question::Open).filter(|_| question == Question::Read))
            .unwrap_or_else(|| (question, not_held()));
        Err(FileError::new(question, path, source))
    }
}

fn not_held() -> io::Error {
    failed(&Failure::NotHeld)
}

impl Files for Replay {
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>, FileError> {
        self.answer(Question::Open, path, |recorded| {
            let whole = recorded.text.is_some() || recorded.bytes.is_some();
            (recorded.parts.is_some() || whole).then_some(())
        })?;
        Ok(Box::new(Open { files: Arc::clone(&self.0), path: path.display().to_string() }))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FileError> {
        self.answer(Question::Link, path, |recorded| recorded.link.as_ref().map(PathBuf::from))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, FileError> {
        let mut names = self.answer(Question::List, path, |recorded| recorded.names.clone())?;
        // Sorted like live listings.
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn state(&self, path: &Path) -> Result<FileState, FileError> {
        self.answer(Question::State, path, |recorded| recorded.state)
    }

    fn usable(&self, path: &Path) -> Fact<bool> {
        self.recorded(path).and_then(|recorded| recorded.usable.clone()).unwrap_or_default()
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.answer(Question::Read, path, |recorded| whole(recorded).map(<[u8]>::to_vec))
    }

    fn reduced(
        &self,
        path: &Path,
        _most: usize,
        keep: &dyn Fn(Vec<u8>) -> Vec<u8>,
    ) -> Result<Vec<u8>, FileError> {
        self.read(path).map(keep)
    }

    fn streamed(&self, path: &Path, _reduce: &Reduce<'_>) -> Result<String, FileError> {
        self.answer(Question::Read, path, |recorded| recorded.text.clone())
    }
}

fn whole(recorded: &Recorded) -> Option<&[u8]> {
    let text = recorded.text.as_ref().map(|text| text.as_bytes());
    text.or(recorded.bytes.as_ref().map(|bytes| bytes.0.as_slice()))
}

struct Open {
    files: Arc<BTreeMap<String, Recorded>>,
    path: String,
}

impl OpenFile for Open {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let recorded = self.files.get(&self.path).ok_or_else(not_held)?;
        if let Some(bytes) = whole(recorded) {
            return Ok(copy(bytes, offset, out));
        }
        if recorded.end.is_some_and(|end| offset >= end) {
            return Ok(0);
        }
        let parts = recorded.parts.as_deref().unwrap_or_default();
        let holds = |at: u64, length: usize| at <= offset && offset - at < length as u64;
        match parts.iter().find(|part| holds(part.at, part.bytes.0.len())) {
            Some(part) => {
                let count = copy(&part.bytes.0, offset - part.at, out);
                let reached = offset.saturating_add(count as u64);
                if count == out.len() || recorded.end.is_some_and(|end| reached >= end) {
                    Ok(count)
                } else {
                    // The next bytes were not recorded, so the end is unknown.
                    Err(self.lost(recorded))
                }
            }
            None => Err(self.lost(recorded)),
        }
    }
}

impl Open {
    fn lost(&self, recorded: &Recorded) -> io::Error {
        recorded.errors.get(Question::Part).map_or_else(not_held, failed)
    }
}

/// Copies bytes from `offset` on; returns their number.
fn copy(bytes: &[u8], offset: u64, out: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
    let count = rest.len().min(out.len());
    out[..count].copy_from_slice(&rest[..count]);
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_names_like_live_machine() {
        let directory = Recorded {
            names: Some(["nvidia1", "nvidia0", "nvidia1"].map(str::to_owned).to_vec()),
            ..Recorded::default()
        };
        let replay = Replay::new(BTreeMap::from([("/dev".to_owned(), directory)]));
        let names = replay.list(Path::new("/dev")).expect("names");
        assert_eq!(names, ["nvidia0", "nvidia1"]);
    }
}
