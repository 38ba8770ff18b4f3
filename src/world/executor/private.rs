//! Directories of this user alone, such as that of the journals. Owner and permissions are checked on open
//! descriptors, so that exchanging names has no effect.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::file::{beside, write_new};
use super::lock::{Locked, lock};
use super::{Executor, FileImage};
use crate::model::{FileMeta, Question};
use crate::world::FileError;

/// A directory that only this user may change.
pub struct PrivateDirectory {
    directory: OwnedFd,
    path: PathBuf,
}

impl Executor {
    /// Opens it; `None` if absent.
    pub fn private(&self, path: &Path) -> Result<Option<PrivateDirectory>, FileError> {
        match self.existing_directory(Question::Open, path, OFlags::NOFOLLOW)? {
            Some(directory) => PrivateDirectory::checked(directory, path).map(Some),
            None => Ok(None),
        }
    }

    /// Creates it if needed, with world-readable parents.
    pub fn make_private(&self, path: &Path) -> Result<PrivateDirectory, FileError> {
        for missing in self.missing_above(path)? {
            self.make_directory(&missing, 0o755)?;
        }
        self.make_directory(path, 0o700)?;
        self.private(path)?
            .ok_or_else(|| FileError::new(Question::Open, path, io::ErrorKind::NotFound.into()))
    }
}

impl PrivateDirectory {
    fn checked(directory: OwnedFd, path: &Path) -> Result<Self, FileError> {
        check(&directory, path, FileType::Directory)?;
        Ok(Self { directory, path: path.to_owned() })
    }

    /// Opens a subdirectory; `None` if absent.
    pub fn inner(&self, name: &str) -> Result<Option<Self>, FileError> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match sys::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(directory) => Self::checked(directory, &path).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(FileError::new(Question::Open, &path, errno.into())),
        }
    }

    /// Creates a subdirectory if needed.
    pub fn make_inner(&self, name: &str) -> Result<Self, FileError> {
        let path = self.path.join(name);
        let failed = |errno: Errno| FileError::new(Question::Write, &path, errno.into());
        match sys::mkdirat(&self.directory, name, Mode::RWXU) {
            Ok(()) => sys::fsync(&self.directory).map_err(failed)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        self.inner(name)?
            .ok_or_else(|| FileError::new(Question::Open, &path, io::ErrorKind::NotFound.into()))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Its names, sorted; skips names that are not UTF-8.
    pub fn list(&self) -> Result<Vec<String>, FileError> {
        let failed = |errno: Errno| FileError::new(Question::List, &self.path, errno.into());
        let mut names = Vec::new();
        for entry in sys::Dir::read_from(&self.directory).map_err(failed)? {
            match entry.map_err(failed)?.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Reads a file of at most `most` bytes; `None` if absent.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, FileError> {
        let path = self.path.join(name);
        let failed = |source: io::Error| FileError::new(Question::Read, &path, source);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match sys::openat(&self.directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        };
        check(&file, &path, FileType::RegularFile)?;
        let mut content = Vec::new();
        let count = File::from(file).take(most + 1).read_to_end(&mut content).map_err(failed)?;
        if u64::try_from(count).is_ok_and(|count| count <= most) {
            Ok(Some(content))
        } else {
            Err(failed(io::ErrorKind::FileTooLarge.into()))
        }
    }

    /// Replaces a file atomically and syncs it to disk.
    pub fn replace(&self, name: &str, content: Vec<u8>) -> Result<(), FileError> {
        self.place(name, content, RenameFlags::empty())
    }

    pub fn create(&self, name: &str, content: Vec<u8>) -> Result<(), FileError> {
        self.place(name, content, RenameFlags::NOREPLACE)
    }

    fn place(&self, name: &str, content: Vec<u8>, how: RenameFlags) -> Result<(), FileError> {
        let path = self.path.join(name);
        let (uid, gid) = user();
        let image = FileImage {
            content,
            meta: FileMeta { mode: 0o600, uid, gid, ..FileMeta::default() },
            links: 1,
        };
        let beside = beside(OsStr::new(name));
        let _ = sys::unlinkat(&self.directory, &beside, AtFlags::empty());
        let written = write_new(&self.directory, &beside, &image);
        let placed = written.and_then(|()| self.rename(&beside, name, how));
        let synced = placed.and_then(|()| Ok(sys::fsync(&self.directory)?));
        synced.map_err(|source| {
            // Ignored: the next file of this name replaces it.
            let _ = sys::unlinkat(&self.directory, &beside, AtFlags::empty());
            FileError::new(Question::Write, &path, source)
        })
    }

    fn rename(&self, from: &OsStr, to: &str, how: RenameFlags) -> io::Result<()> {
        if how.is_empty() {
            return Ok(sys::renameat(&self.directory, from, &self.directory, to)?);
        }
        match sys::renameat_with(&self.directory, from, &self.directory, to, how) {
            // Without RENAME_NOREPLACE: a hard link fails if the name exists.
            Err(Errno::INVAL | Errno::NOSYS) => {
                sys::linkat(&self.directory, from, &self.directory, to, AtFlags::empty())?;
                Ok(sys::unlinkat(&self.directory, from, AtFlags::empty())?)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Removes a file if it exists.
    pub fn remove(&self, name: &str) -> Result<(), FileError> {
        let failed =
            |errno: Errno| FileError::new(Question::Write, &self.path.join(name), errno.into());
        match sys::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) => sys::fsync(&self.directory).map_err(failed),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Takes the lock in this file, creating it if needed.
    pub fn lock(&self, name: &str) -> Result<Locked, FileError> {
        let path = self.path.join(name);
        let failed = |errno: Errno| FileError::new(Question::Write, &path, errno.into());
        // Without CLOEXEC: programs that gdr starts hold the lock, even if gdr is killed.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file =
            sys::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        check(&file, &path, FileType::RegularFile)?;
        lock(file).map_err(failed)
    }
}

/// Checks that this user owns it and no other user may write to it.
fn check(file: &OwnedFd, path: &Path, kind: FileType) -> Result<(), FileError> {
    let wrong = |words: String| {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, words);
        Err(FileError::new(Question::Trust, path, source))
    };
    let stat =
        sys::fstat(file).map_err(|errno| FileError::new(Question::Trust, path, errno.into()))?;
    let (uid, _) = user();
    if FileType::from_raw_mode(stat.st_mode) != kind {
        return wrong("wrong file type".to_owned());
    }
    if stat.st_uid != uid {
        return wrong(format!("owned by user {}, but gdr runs as user {uid}", stat.st_uid));
    }
    if stat.st_mode & 0o022 != 0 {
        return wrong(format!(
            "writable by others (mode {:04o}): check its content, then run 'chmod go-w'",
            stat.st_mode & 0o7777
        ));
    }
    Ok(())
}

pub(super) fn user() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}
