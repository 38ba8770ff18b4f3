//! The files of a support report, with links resolved within it.
//!
//! A report describes a part of a machine. A path is absent only if the report says so, or if it lists the whole
//! directory and the path is not in the list; otherwise the path is unknown.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::files::{FileError, Files, OpenFile, failed};
use super::replay::Replay;
use crate::model::{Fact, Failure, FileKind, FileState, Question, Recorded, Why};

/// The kernel's limit.
const MAX_LINKS: usize = 40;

pub struct Report(Replay);

impl Report {
    pub fn new(files: BTreeMap<String, Recorded>) -> Self {
        Self(Replay::new(files))
    }

    /// Answers a question about a path with what is recorded of the path without links.
    fn ask<T>(
        &self,
        question: Question,
        path: &Path,
        answer: impl FnOnce(&Path) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let answered = self.resolved(question, path).and_then(|path| answer(&path));
        answered.map_err(FileError::in_report)
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
            if self.0.recorded(&at).is_some_and(|recorded| lacks(recorded, &name)) {
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
                if links > MAX_LINKS {
                    return fail(&errno(rustix::io::Errno::LOOP));
                }
                let target = Path::new(target);
                if target.is_absolute() {
                    at = PathBuf::from("/")
                } else {
                    _ = at.pop()
                }
                for name in names(target).into_iter().rev() {
                    rest.push_front(name);
                }
            }
        }
        Ok(at)
    }
}

/// True for a directory whose names are all known and do not include this one.
fn lacks(recorded: &Recorded, name: &str) -> bool {
    let is_whole = recorded.state.is_some_and(|state| state.kind == FileKind::Directory);
    let names = recorded.names.as_ref().filter(|_| is_whole);
    // Sorted where they were recorded.
    names.is_some_and(|names| names.binary_search_by(|known| known.as_str().cmp(name)).is_err())
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
        self.ask(Question::Open, path, |path| self.0.open(path))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FileError> {
        self.ask(Question::Link, path, |at| {
            let recorded = self.0.recorded(at);
            let is_file = recorded
                .is_some_and(|recorded| recorded.link.is_none() && recorded.state.is_some());
            if is_file {
                Err(FileError::new(
                    Question::Link,
                    path,
                    io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error()),
                ))
            } else {
                self.0.read_link(at)
            }
        })
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, FileError> {
        self.ask(Question::List, path, |path| self.0.list(path))
    }

    fn state(&self, path: &Path) -> Result<FileState, FileError> {
        self.ask(Question::State, path, |path| self.0.state(path))
    }

    fn usable(&self, _: &Path) -> Fact<bool> {
        Fact::Unknown(Why::NotCovered)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.ask(Question::Read, path, |path| self.0.read(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let link = |target: &str| Recorded { link: Some(target.to_owned()), ..Recorded::default() };
        let state = |kind| Some(FileState { kind, mode: 0o444, device: (0, 0) });
        let directory = |names: &[&str]| Recorded {
            names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            state: state(FileKind::Directory),
            ..Recorded::default()
        };
        let mut gone = Recorded::default();
        gone.errors.insert(Question::State, Failure::Errno(2));
        let file = Recorded {
            text: Some("inside\n".to_owned()),
            state: state(FileKind::Regular),
            ..Recorded::default()
        };
        let files = [
            ("/sys/a/file", file),
            ("/sys/relative", link("../sys/a/file")),
            ("/sys/absolute", link("/sys/a/file")),
            ("/sys/escape", link("../../../../sys/a/file")),
            ("/sys/dir", link("a")),
            ("/sys/loop", link("loop")),
            ("/sys/dangling", link("/nowhere/x")),
            ("/proc/driver", directory(&["nvidia"])),
            ("/sys/module/gone", gone),
            ("/sys/module", Recorded { names: Some(Vec::new()), ..Recorded::default() }),
        ];
        Report::new(files.map(|(path, recorded)| (path.to_owned(), recorded)).into())
    }

    #[test]
    fn links_stay_in_the_report() {
        let report = report();
        for path in [
            "/sys/a/file",
            "/sys/relative",
            "/sys/absolute",
            "/sys/escape",
            "/sys/dir/file",
            "/sys/dir/../a/file",
            "/../sys/a/file",
        ] {
            assert_eq!(report.text(Path::new(path)).expect(path), "inside");
            assert!(report.exists(Path::new(path)).expect(path));
        }
        let links = |path: &str| report.read_link(Path::new(path));
        assert_eq!(links("/sys/dir").expect("a link"), Path::new("a"));
        let no_link = links("/sys/a/file").expect_err("no link");
        assert_eq!(no_link.failure(), Failure::Errno(22));
        let why = |path: &str| report.read(Path::new(path)).expect_err(path).why();
        assert_eq!(why("/sys/loop"), Why::Broken);
        assert_eq!(why("/sys/dangling"), Why::NotCovered);
    }

    #[test]
    fn a_path_is_absent_only_if_the_report_says_so() {
        let report = report();
        let is_absent = |path: &str| report.state(Path::new(path)).expect_err(path).is_absent();
        assert!(is_absent("/sys/module/gone"));
        assert!(is_absent("/sys/module/gone/version"));
        assert!(is_absent("/proc/driver/gdrdrv/params"));
        for path in ["/proc/driver/nvidia/version", "/sys/module/other", "/dev/nvidia0"] {
            assert!(!is_absent(path), "{path}");
        }
        assert!(report.list(Path::new("/sys/module")).expect("a list").is_empty());
        assert!(report.list(Path::new("/dev")).is_err());
    }
}
