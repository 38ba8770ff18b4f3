//! The hands of a repair: what changes a machine, live or laid out in a directory.
//!
//! Paths are resolved as [`Tree`] resolves them: in a laid-out machine no link leads out of it. The last component is never
//! a link that is followed. A file is replaced in one rename, so that nobody ever sees half of it, and what was written is
//! on the disk before the call returns.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{self as sys, AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::FileError;
use super::programs::{Programs, Ran};
use super::tree::Tree;
use crate::model::{Bdf, FileImage, Hex, Question};

/// The largest file that a repair replaces: none of those it does comes near.
const MOST: u64 = 1 << 20;

/// What changes a machine.
pub struct Hands {
    tree: Tree,
    programs: Programs,
    is_laid_out: bool,
}

/// Held by the one who changes a machine; gone with the process.
pub struct Lock(OwnedFd);

impl Drop for Lock {
    /// A program that another thread is just starting holds a copy of the descriptor until it runs, so closing this one is not
    /// enough.
    fn drop(&mut self) {
        let _ = sys::flock(&self.0, sys::FlockOperation::Unlock);
    }
}

impl Hands {
    /// Those for the machine gdr runs on. A program may take as long as `patience`.
    pub fn live(patience: Duration) -> Result<Self, FileError> {
        Ok(Self {
            tree: Tree::live()?,
            programs: Programs::live(patience),
            is_laid_out: false,
        })
    }

    /// Those for a machine laid out in a directory. Programs are those in `tools`, where given.
    pub fn directory(root: &Path, tools: Option<&Path>, patience: Duration) -> Result<Self, FileError> {
        Ok(Self {
            tree: Tree::directory(root)?,
            programs: Programs::laid_out(root, tools, patience),
            is_laid_out: true,
        })
    }

    /// A file with its permissions and owner; none where there is nothing. What is no regular file is an error.
    pub fn file(&self, path: &Path) -> Result<Option<FileImage>, FileError> {
        let (directory, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(error),
        };
        let failed = |errno: Errno| FileError::new(Question::Read, path, errno.into());
        let wrong = |words: &str| {
            let source = io::Error::new(io::ErrorKind::InvalidData, words.to_owned());
            FileError::new(Question::Read, path, source)
        };
        let stat = match sys::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(wrong("it is a symbolic link, and gdr changes no file through a link")),
            _ => return Err(wrong("it is not a regular file")),
        }
        // Without NONBLOCK a pipe put there between the two calls would hold us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = sys::openat(&directory, &name, flags, Mode::empty()).map_err(failed)?;
        let stat = sys::fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(wrong("it is not a regular file"));
        }
        if u64::try_from(stat.st_size).is_ok_and(|size| size > MOST) {
            return Err(wrong("it is larger than 1 MiB"));
        }
        let mut content = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(std::fs::File::from(file), MOST), &mut content)
            .map_err(|source| FileError::new(Question::Read, path, source))?;
        Ok(Some(FileImage {
            content: Hex(content),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
        }))
    }

    /// Puts a file in place in one go: readers see what was there or all of this.
    pub fn replace(&self, path: &Path, image: &FileImage) -> Result<(), FileError> {
        let failed = |errno: Errno| FileError::new(Question::Write, path, errno.into());
        let (directory, name) = self.parent(path)?;
        let beside = beside(&name);
        let _ = sys::unlinkat(&directory, &beside, AtFlags::empty());
        let written = self.write_beside(&directory, &beside, image);
        let placed =
            written.and_then(|()| sys::renameat(&directory, &beside, &directory, &name).map_err(io::Error::from));
        if let Err(source) = placed {
            // What could not be finished is taken away; that it was begun is no secret where this fails too.
            let _ = sys::unlinkat(&directory, &beside, AtFlags::empty());
            return Err(FileError::new(Question::Write, path, source));
        }
        sys::fsync(&directory).map_err(failed)
    }

    fn write_beside(&self, directory: &OwnedFd, name: &OsStr, image: &FileImage) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = sys::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
        let stat = sys::fstat(&file)?;
        if (stat.st_uid, stat.st_gid) != (image.uid, image.gid) {
            sys::fchown(&file, Some(Uid::from_raw(image.uid)), Some(Gid::from_raw(image.gid)))?;
        }
        sys::fchmod(&file, Mode::from_raw_mode(image.mode))?;
        let mut file = std::fs::File::from(file);
        io::Write::write_all(&mut file, &image.content.0)?;
        file.sync_all()
    }

    /// Takes away what an interrupted [`Hands::replace`] of this path may have left beside it.
    pub fn sweep(&self, path: &Path) -> Result<(), FileError> {
        let (directory, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(()),
            Err(error) => return Err(error),
        };
        let left = beside(&name);
        if sys::statat(&directory, &left, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Ok(());
        }
        match sys::unlinkat(&directory, left, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(FileError::new(Question::Write, path, errno.into())),
        }
    }

    /// Takes a file away.
    pub fn remove(&self, path: &Path) -> Result<(), FileError> {
        let failed = |errno: Errno| FileError::new(Question::Write, path, errno.into());
        let (directory, name) = self.parent(path)?;
        sys::unlinkat(&directory, &name, AtFlags::empty()).map_err(failed)?;
        sys::fsync(&directory).map_err(failed)
    }

    /// The directories above a path that are not there, the outermost first.
    pub fn missing_above(&self, path: &Path) -> Result<Vec<PathBuf>, FileError> {
        let mut missing = Vec::new();
        for directory in path.ancestors().skip(1) {
            match self.directory_at(directory) {
                Ok(_) => break,
                // What is there and cannot be gone through, as a link that dangles, is not missing.
                Err(error) if error.is_absent() && !self.is_there(directory)? => {
                    missing.insert(0, directory.to_owned())
                }
                Err(error) => return Err(error),
            }
        }
        Ok(missing)
    }

    /// Makes one directory.
    pub fn make_directory(&self, path: &Path, mode: u32) -> Result<(), FileError> {
        let failed = |errno: Errno| FileError::new(Question::Write, path, errno.into());
        let (directory, name) = self.parent(path)?;
        match sys::mkdirat(&directory, &name, Mode::from_raw_mode(mode)) {
            Ok(()) => sys::fsync(&directory).map_err(failed),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Takes a directory away where it is empty; whether it did.
    pub fn remove_directory(&self, path: &Path) -> Result<bool, FileError> {
        // A read-only file system refuses to take away even what is not there.
        if !self.is_there(path)? {
            return Ok(false);
        }
        let (directory, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(false),
            Err(error) => return Err(error),
        };
        match sys::unlinkat(&directory, &name, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(FileError::new(Question::Write, path, errno.into())),
        }
    }

    /// A part of a function's configuration space; shorter where the space ends.
    pub fn read_config(&self, bdf: Bdf, offset: u16, length: usize) -> Result<Vec<u8>, FileError> {
        let path = config(bdf);
        let failed = |errno: Errno| FileError::new(Question::Read, &path, errno.into());
        let file = self
            .tree
            .open_at(Question::Read, &path, OFlags::RDONLY | OFlags::NOFOLLOW)?;
        let mut bytes = vec![0; length];
        let count = rustix::io::pread(&file, &mut bytes, offset.into()).map_err(failed)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Writes a register of a function: one transaction of 1, 2 or 4 bytes.
    pub fn write_config(&self, bdf: Bdf, offset: u16, bytes: &[u8]) -> Result<(), FileError> {
        let path = config(bdf);
        let failed = |source: io::Error| FileError::new(Question::Write, &path, source);
        let file = self
            .tree
            .open_at(Question::Write, &path, OFlags::WRONLY | OFlags::NOFOLLOW)?;
        match rustix::io::pwrite(&file, bytes, offset.into()) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(failed(io::ErrorKind::WriteZero.into())),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// What a kernel attribute reads, without its trailing white space.
    pub fn attribute(&self, path: &Path) -> Result<String, FileError> {
        let failed = |source: io::Error| FileError::new(Question::Read, path, source);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = std::fs::File::from(self.tree.open_at(Question::Read, path, flags)?);
        let mut text = String::new();
        io::Read::read_to_string(&mut io::Read::take(file, 65536), &mut text).map_err(failed)?;
        Ok(text.trim_end().to_owned())
    }

    /// Writes a kernel attribute.
    pub fn write_attribute(&self, path: &Path, text: &str) -> Result<(), FileError> {
        let failed = |source: io::Error| FileError::new(Question::Write, path, source);
        // The kernel takes one write whole. What stands for it on a laid-out machine is a file like any other.
        if self.is_laid_out
            && let Some(before) = self.file(path)?
        {
            let content = Hex(format!("{text}\n").into_bytes());
            return self.replace(path, &FileImage { content, ..before });
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = std::fs::File::from(self.tree.open_at(Question::Write, path, flags)?);
        io::Write::write_all(&mut file, format!("{text}\n").as_bytes()).map_err(failed)
    }

    /// The names in a directory, sorted; none where there is no such directory.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, FileError> {
        match super::Files::list(&self.tree, path) {
            Err(error) if error.is_absent() => Ok(Vec::new()),
            names => names,
        }
    }

    /// Whether something is at a path, a link included.
    pub fn is_there(&self, path: &Path) -> Result<bool, FileError> {
        let (directory, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(false),
            Err(error) => return Err(error),
        };
        match sys::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(FileError::new(Question::State, path, errno.into())),
        }
    }

    /// Runs a program of the machine.
    pub fn run(&self, argv: &[String]) -> Ran {
        self.programs.run(argv)
    }

    /// The lock in this file, which is made where it is not there; none where somebody else holds it.
    pub fn lock(&self, path: &Path) -> Result<Option<Lock>, FileError> {
        let failed = |errno: Errno| FileError::new(Question::Write, path, errno.into());
        let (directory, name) = self.parent(path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = sys::openat(&directory, &name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        match sys::flock(&file, sys::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// The directory that a path is in, and its name there.
    fn parent(&self, path: &Path) -> Result<(OwnedFd, OsString), FileError> {
        let wrong = || FileError::new(Question::State, path, io::ErrorKind::InvalidInput.into());
        let name = path.file_name().ok_or_else(wrong)?;
        let directory = path.parent().ok_or_else(wrong)?;
        Ok((self.directory_at(directory)?, name.to_owned()))
    }

    fn directory_at(&self, path: &Path) -> Result<OwnedFd, FileError> {
        self.tree
            .open_at(Question::State, path, OFlags::RDONLY | OFlags::DIRECTORY)
    }
}

fn config(bdf: Bdf) -> PathBuf {
    PathBuf::from(format!("/sys/bus/pci/devices/{bdf}/config"))
}

/// The name under which a file is written before it takes its place.
fn beside(name: &OsStr) -> OsString {
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(".gdr-new");
    beside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_was_let_go_is_free_whoever_has_its_descriptor() {
        let root = tempfile::tempdir().expect("a directory");
        let hands = || Hands::directory(root.path(), None, Duration::from_secs(1)).expect("a machine");
        let path = Path::new("/lock");
        let held = hands().lock(path).expect("no trouble").expect("it is free");
        assert!(hands().lock(path).expect("no trouble").is_none());
        let copy = held.0.try_clone().expect("a copy");
        drop(held);
        assert!(hands().lock(path).expect("no trouble").is_some());
        drop(copy);
    }
}
