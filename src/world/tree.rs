//! Files below a directory: the live root, or a directory that links cannot leave.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags, ResolveFlags};

use super::files::{FileError, Files, OpenFile};
use super::walk;
use crate::model::{Fact, FileKind, FileState, Question, Why};

pub struct Tree {
    root: OwnedFd,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Like any program.
    Plain,
    /// openat2 with RESOLVE_IN_ROOT (Linux 5.6).
    InRoot,
    /// One component at a time, without openat2 (older kernels, sandboxes).
    Walk,
}

impl Tree {
    pub fn live() -> Result<Self, FileError> {
        Ok(Self { root: open_root(Path::new("/"))?, how: How::Plain })
    }

    pub fn directory(path: &Path) -> Result<Self, FileError> {
        let root = open_root(path)?;
        let how = match sys::openat2(
            &root,
            ".",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT,
        ) {
            Ok(_) => How::InRoot,
            Err(_) => How::Walk,
        };
        Ok(Self { root, how })
    }

    #[cfg(test)]
    fn walking(path: &Path) -> Result<Self, FileError> {
        Ok(Self { root: open_root(path)?, how: How::Walk })
    }

    pub(super) fn open_at(
        &self,
        question: Question,
        path: &Path,
        flags: OFlags,
    ) -> Result<OwnedFd, FileError> {
        let relative = relative(path);
        // openat2 rejects NOCTTY together with PATH.
        let flags = if flags.contains(OFlags::PATH) {
            flags | OFlags::CLOEXEC
        } else {
            flags | OFlags::CLOEXEC | OFlags::NOCTTY
        };
        match self.how {
            How::Plain => sys::openat(&self.root, relative, flags, Mode::empty()),
            How::InRoot => self.open_in_root(relative, flags),
            How::Walk => walk::open(self.root.as_fd(), relative, flags),
        }
        .map_err(|errno| FileError::new(question, path, errno.into()))
    }

    /// openat2(2) fails with EAGAIN if anything is renamed or mounted while it resolves a `..`, and should be
    /// retried. After some retries, walk the path instead.
    fn open_in_root(&self, relative: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..64 {
            match sys::openat2(&self.root, relative, flags, Mode::empty(), resolve) {
                Err(rustix::io::Errno::AGAIN) => {}
                answer => return answer,
            }
        }
        walk::open(self.root.as_fd(), relative, flags)
    }
}

impl Files for Tree {
    fn open(&self, path: &Path) -> Result<Box<dyn OpenFile>, FileError> {
        // Opening a device can have effects (a watchdog starts). The kernel has none here, but an archive may.
        if self.how != How::Plain {
            is_regular(&self.open_at(Question::Open, path, OFlags::PATH)?, path)?;
        }
        // Without NONBLOCK a pipe would block.
        let file = self.open_at(Question::Open, path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        is_regular(&file, path)?;
        Ok(Box::new(Open(file)))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FileError> {
        let error = |errno: rustix::io::Errno| FileError::new(Question::Link, path, errno.into());
        let target = if self.how == How::Plain {
            sys::readlinkat(&self.root, relative(path), Vec::new()).map_err(error)?
        } else {
            let link = self.open_at(Question::Link, path, OFlags::PATH | OFlags::NOFOLLOW)?;
            sys::readlinkat(&link, "", Vec::new()).map_err(|errno| match errno {
                // The path exists; with an empty path Linux reports ENOENT for anything but a link.
                rustix::io::Errno::NOENT => error(rustix::io::Errno::INVAL),
                errno => error(errno),
            })?
        };
        Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, FileError> {
        let error = |errno: rustix::io::Errno| FileError::new(Question::List, path, errno.into());
        let directory = self.open_at(
            Question::List,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK,
        )?;
        let mut names = Vec::new();
        for entry in sys::Dir::new(directory).map_err(error)? {
            let entry = entry.map_err(error)?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn state(&self, path: &Path) -> Result<FileState, FileError> {
        let file = self.open_at(Question::State, path, OFlags::PATH)?;
        let stat = sys::fstat(&file)
            .map_err(|errno| FileError::new(Question::State, path, errno.into()))?;
        Ok(FileState {
            kind: match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => FileKind::Regular,
                FileType::Directory => FileKind::Directory,
                FileType::CharacterDevice => FileKind::Character,
                _ => FileKind::Other,
            },
            mode: stat.st_mode & 0o7777,
            device: (sys::major(stat.st_rdev), sys::minor(stat.st_rdev)),
        })
    }

    fn usable(&self, path: &Path) -> Fact<bool> {
        if self.how != How::Plain {
            return Fact::Unknown(Why::NotCovered);
        }
        let both = sys::Access::READ_OK | sys::Access::WRITE_OK;
        Fact::Known(sys::accessat(&self.root, relative(path), both, AtFlags::EACCESS).is_ok())
    }
}

fn is_regular(file: &OwnedFd, path: &Path) -> Result<(), FileError> {
    let error = |source| FileError::new(Question::Open, path, source);
    let stat = sys::fstat(file).map_err(|errno| error(errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(error(io::ErrorKind::IsADirectory.into())),
        _ => Err(error(io::Error::new(io::ErrorKind::InvalidData, "not a regular file"))),
    }
}

struct Open(OwnedFd);

impl OpenFile for Open {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::pread(&self.0, &mut *out, offset) {
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }
}

fn open_root(path: &Path) -> Result<OwnedFd, FileError> {
    sys::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| FileError::new(Question::Root, path, errno.into()))
}

/// The path relative to the root directory.
fn relative(path: &Path) -> &Path {
    let inner = path.strip_prefix("/").unwrap_or(path);
    if inner.as_os_str().is_empty() { Path::new(".") } else { inner }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A root with links that stay, leave, loop and dangle, and a secret beside it.
    fn laid_out() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("sys/a/b")).expect("directories");
        fs::write(dir.path().join("secret"), "outside").expect("the secret");
        fs::write(root.join("sys/a/file"), "inside").expect("a file");
        fs::write(root.join("secret"), "the root's own").expect("a file");
        for (target, name) in [
            ("../sys/a/file", "sys/relative"),
            ("/sys/a/file", "sys/absolute"),
            ("../../../../../../secret", "sys/escape"),
            ("loop", "sys/loop"),
            ("nowhere", "sys/dangling"),
            ("a", "sys/dir"),
        ] {
            symlink(target, root.join(name)).expect("a link");
        }
        dir
    }

    fn both(dir: &tempfile::TempDir) -> [Tree; 2] {
        let root = dir.path().join("root");
        [Tree::directory(&root).expect("a root"), Tree::walking(&root).expect("a root")]
    }

    #[test]
    fn links_cannot_leave_the_root() {
        let dir = laid_out();
        for tree in both(&dir) {
            let text = |path: &str| tree.text(Path::new(path));
            assert_eq!(text("/sys/relative").expect("inside"), "inside");
            assert_eq!(text("/sys/absolute").expect("inside"), "inside");
            assert_eq!(text("/sys/dir/file").expect("inside"), "inside");
            assert_eq!(text("/sys/dir/b/../file").expect("inside"), "inside");
            assert_eq!(text("/sys/escape").expect("clamped"), "the root's own");
            assert_eq!(text("/../secret").expect("clamped"), "the root's own");
            assert!(text("/sys/dangling").expect_err("dangles").is_absent());
            assert_eq!(text("/sys/loop").expect_err("loops").why(), Why::Broken);
            assert_eq!(tree.read_link(Path::new("/sys/dir")).expect("a link"), Path::new("a"));
            assert!(!tree.read_link(Path::new("/sys/a")).expect_err("no link").is_absent());
            assert!(tree.read_link(Path::new("/sys/none")).expect_err("nothing").is_absent());
        }
    }

    #[test]
    fn lists_and_looks() {
        let dir = laid_out();
        for tree in both(&dir) {
            assert_eq!(tree.list(Path::new("/sys/dir")).expect("a list"), ["b", "file"]);
            let kind = |path: &str| tree.state(Path::new(path)).map(|state| state.kind);
            assert_eq!(kind("/sys/a").expect("there"), FileKind::Directory);
            assert_eq!(kind("/sys/absolute").expect("there"), FileKind::Regular);
            assert!(!tree.exists(Path::new("/sys/dangling")).expect("told"));
            assert_eq!(tree.usable(Path::new("/sys/a/file")), Fact::Unknown(Why::NotCovered));
        }
    }

    #[test]
    fn refuses_pipes_and_directories() {
        let dir = laid_out();
        let pipe = dir.path().join("root/sys/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
        for tree in both(&dir) {
            assert!(tree.read(Path::new("/sys/pipe")).is_err());
            assert!(tree.read(Path::new("/sys/a")).is_err());
        }
    }

    /// An open of a node without driver would fail with ENXIO.
    #[test]
    fn does_not_open_devices() {
        let dir = laid_out();
        let node = dir.path().join("root/sys/device");
        let made = sys::mknodat(
            sys::CWD,
            &node,
            FileType::CharacterDevice,
            Mode::RUSR,
            sys::makedev(4095, 1),
        );
        if made.is_err() {
            // Only root may make one.
            return;
        }
        for tree in both(&dir) {
            let error = tree.read(Path::new("/sys/device")).expect_err("no file").sentence();
            assert_eq!(error, "cannot open /sys/device: not a regular file");
        }
    }

    #[test]
    fn reads_ranges_and_stops_at_the_end() {
        let dir = laid_out();
        for tree in both(&dir) {
            let range = |offset, length| tree.read_range(Path::new("/sys/a/file"), offset, length);
            assert_eq!(range(2, 3).expect("a range"), b"sid");
            assert_eq!(range(4, 100).expect("a range"), b"de");
            assert!(range(100, 4).expect("a range").is_empty());
        }
    }

    #[test]
    fn error_names_operation_path_and_cause() {
        let error = Tree::directory(Path::new("/no/such/root")).err().expect("absent");
        assert_eq!(
            error.sentence(),
            "cannot use as a root /no/such/root: No such file or directory"
        );
    }
}
