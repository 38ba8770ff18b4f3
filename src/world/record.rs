//! A recorder for file access, which produces snapshots.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::{FileError, Files, OpenFile, Reduce, failure};
use crate::model::{Fact, FileState, Hex, MAX_PATHS, Part, Question, Recorded};

/// The answers so far, by path.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<BTreeMap<String, Recorded>>>);

impl Log {
    pub fn take(&self) -> BTreeMap<String, Recorded> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Recorded>> {
        // Answers are complete even if a collector panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, path: &Path, write: impl FnOnce(&mut Recorded)) {
        let mut log = self.lock();
        let path = path.display().to_string();
        // A snapshot with one path over the limit is rejected anyway.
        if log.len() <= MAX_PATHS || log.contains_key(&path) {
            write(log.entry(path).or_default());
        }
    }

    /// Records an answer or its error.
    fn keep<T>(
        &self,
        path: &Path,
        answer: Result<T, FileError>,
        write: impl FnOnce(&mut Recorded, &T),
    ) -> Result<T, FileError> {
        self.note(path, |recorded| match &answer {
            Ok(value) => write(recorded, value),
            Err(error) => {
                recorded.errors.insert(error.question(), error.failure());
            }
        });
        answer
    }
}

pub struct Recorder {
    files: Box<dyn Files>,
    log: Log,
}

impl Recorder {
    pub fn new(files: Box<dyn Files>, log: Log) -> Self {
        Self { files, log }
    }
}

impl Files for Recorder {
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>, FileError> {
        let file = self.log.keep(path, self.files.open(path), |recorded, _| {
            recorded.parts.get_or_insert_default();
        })?;
        Ok(Box::new(Open { file, path: path.to_owned(), log: self.log.clone() }))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FileError> {
        self.log.keep(path, self.files.read_link(path), |recorded, target| {
            recorded.link = Some(target.display().to_string());
        })
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, FileError> {
        self.log.keep(path, self.files.list(path), |recorded, names| {
            recorded.names = Some(names.clone());
        })
    }

    fn list_kept(
        &self,
        path: &Path,
        keep: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<String>, FileError> {
        let kept = self.files.list_kept(path, keep);
        self.log.keep(path, kept, |recorded, names| {
            // Keeps earlier answers.
            let known = recorded.names.get_or_insert_default();
            known.extend(names.iter().cloned());
            known.sort_unstable();
            known.dedup();
        })
    }

    fn state(&self, path: &Path) -> Result<FileState, FileError> {
        self.log.keep(path, self.files.state(path), |recorded, state| {
            recorded.state = Some(*state);
        })
    }

    fn usable(&self, path: &Path) -> Fact<bool> {
        let usable = self.files.usable(path);
        self.log.note(path, |recorded| recorded.usable = Some(usable.clone()));
        usable
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.log.keep(path, self.files.read(path), |recorded, bytes| whole(recorded, bytes))
    }

    fn reduced(
        &self,
        path: &Path,
        most: usize,
        keep: &dyn Fn(Vec<u8>) -> Vec<u8>,
    ) -> Result<Vec<u8>, FileError> {
        let kept = self.files.reduced(path, most, keep);
        self.log.keep(path, kept, |recorded, bytes| whole(recorded, bytes))
    }

    fn streamed(&self, path: &Path, reduce: &Reduce<'_>) -> Result<String, FileError> {
        let made = self.files.streamed(path, reduce);
        self.log.keep(path, made, |recorded, text| recorded.text = Some(text.clone()))
    }
}

fn whole(recorded: &mut Recorded, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => recorded.text = Some(text.to_owned()),
        Err(_) => recorded.bytes = Some(Hex(bytes.to_vec())),
    }
}

struct Open {
    file: Box<dyn OpenFile>,
    path: PathBuf,
    log: Log,
}

impl OpenFile for Open {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let answer = self.file.read_at(offset, out);
        self.log.note(&self.path, |recorded| match &answer {
            Ok(count) => {
                let count = (*count).min(out.len());
                add(recorded.parts.get_or_insert_default(), offset, &out[..count]);
                if count < out.len() {
                    let end = offset.saturating_add(count as u64);
                    recorded.end = Some(recorded.end.map_or(end, |known| known.min(end)));
                }
            }
            Err(error) => {
                recorded.errors.insert(Question::Part, failure(error));
            }
        });
        answer
    }
}

/// Inserts a part, keeping parts ordered and disjoint.
fn add(parts: &mut Vec<Part>, at: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = |part: &Part| part.at.saturating_add(part.bytes.0.len() as u64);
    let mut new = Part { at, bytes: Hex(bytes.to_vec()) };
    let (touched, apart): (Vec<Part>, Vec<Part>) =
        std::mem::take(parts).into_iter().partition(|part| part.at <= end(&new) && at <= end(part));
    for old in touched {
        let Some(before) = new.at.checked_sub(old.at) else {
            // It begins later: keep only what lies after the new one.
            let beyond = end(&new) - old.at;
            let beyond = usize::try_from(beyond).unwrap_or(usize::MAX);
            new.bytes.0.extend_from_slice(old.bytes.0.get(beyond..).unwrap_or_default());
            continue;
        };
        let before = usize::try_from(before).unwrap_or(usize::MAX);
        let mut joined = old.bytes.0.get(..before).unwrap_or(&old.bytes.0).to_vec();
        joined.extend_from_slice(&new.bytes.0);
        joined.extend_from_slice(old.bytes.0.get(joined.len()..).unwrap_or_default());
        new = Part { at: old.at, bytes: Hex(joined) };
    }
    *parts = apart;
    let place = parts.partition_point(|part| part.at < new.at);
    parts.insert(place, new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_only_kept_names() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("dev")).expect("a directory");
        for name in ["nvidia0", "node17-vg", "sda"] {
            std::fs::write(dir.path().join("dev").join(name), "").expect("a file");
        }
        let log = Log::default();
        let tree = super::super::tree::Tree::directory(dir.path()).expect("a root");
        let files = Recorder::new(Box::new(tree), log.clone());
        let dev = Path::new("/dev");
        assert_eq!(
            files.list_kept(dev, &|name| name.starts_with("nv")).expect("a list"),
            ["nvidia0"]
        );
        assert!(files.list_kept(dev, &|_| false).expect("a list").is_empty());
        let record = log.take();
        assert_eq!(record["/dev"].names.as_deref(), Some(&["nvidia0".to_owned()][..]));
        let replay = super::super::replay::Replay::new(record);
        assert!(replay.list_kept(dev, &|_| false).expect("a list").is_empty());
        assert_eq!(replay.list_kept(dev, &|_| true).expect("a list"), ["nvidia0"]);
    }

    fn parts(reads: &[(u64, &[u8])]) -> Vec<(u64, Vec<u8>)> {
        let mut parts = Vec::new();
        for (at, bytes) in reads {
            add(&mut parts, *at, bytes);
        }
        parts.into_iter().map(|part| (part.at, part.bytes.0)).collect()
    }

    #[test]
    fn merges_adjacent_parts_and_later_read_wins() {
        assert_eq!(parts(&[(0, b"ab"), (4, b"ef")]), [(0, b"ab".to_vec()), (4, b"ef".to_vec())]);
        assert_eq!(parts(&[(4, b"ef"), (0, b"ab"), (2, b"cd")]), [(0, b"abcdef".to_vec())]);
        assert_eq!(parts(&[(0, b"abcdef"), (2, b"XY")]), [(0, b"abXYef".to_vec())]);
        assert_eq!(parts(&[(2, b"cd"), (0, b"ABCDEF")]), [(0, b"ABCDEF".to_vec())]);
        assert_eq!(parts(&[(0, b"abc"), (2, b"CDE")]), [(0, b"abCDE".to_vec())]);
        assert_eq!(parts(&[(2, b"cde"), (0, b"ABC")]), [(0, b"ABCde".to_vec())]);
        assert_eq!(
            parts(&[(8, b"ij"), (2, b"cd"), (5, b""), (4, b"efgh")]),
            [(2, b"cdefghij".to_vec())]
        );
    }
}
