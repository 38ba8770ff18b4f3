//! Files too large to hold, such as an initramfs: hashed, copied and restored as streams.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use sha2::Digest as _;

use super::Executor;
use super::file::{attributes, copy_meta};
use crate::model::{Digest, FileMeta, Question};
use crate::world::FileError;

impl Executor {
    /// SHA-256 of a file; `None` if absent.
    pub fn digest(&self, path: &Path) -> Result<Option<Digest>, FileError> {
        let failed = |source: io::Error| FileError::new(Question::Read, path, source);
        let Some(file) = self.regular(path)? else {
            return Ok(None);
        };
        let mut hash = Hash(sha2::Sha256::new());
        io::copy(&mut File::from(file), &mut hash).map_err(failed)?;
        Ok(Some(Digest::from_hash(&hash.0.finalize())))
    }

    /// Copies a file with its attributes to another name in its directory, replacing that.
    pub fn keep(&self, path: &Path, kept: &Path) -> Result<(), FileError> {
        let failed = |source: io::Error| FileError::new(Question::Write, kept, source);
        let absent = || FileError::new(Question::Read, path, io::ErrorKind::NotFound.into());
        let file = self.regular(path)?.ok_or_else(absent)?;
        let (directory, name) = self.parent(kept)?;
        let part = super::file::beside(&name);
        let _ = sys::unlinkat(&directory, &part, AtFlags::empty());
        let copied = copy(file, &directory, &part);
        let placed = copied.and_then(|()| Ok(sys::renameat(&directory, &part, &directory, &name)?));
        let synced = placed.and_then(|()| Ok(sys::fsync(&directory)?));
        synced.map_err(|source| {
            // Ignored: the next copy replaces it.
            let _ = sys::unlinkat(&directory, &part, AtFlags::empty());
            failed(source)
        })
    }

    /// Renames a copy back.
    pub fn put_back(&self, kept: &Path, path: &Path) -> Result<(), FileError> {
        let failed = |errno: Errno| FileError::new(Question::Write, path, errno.into());
        let (directory, name) = self.parent(path)?;
        let (from, kept) = self.parent(kept)?;
        sys::renameat(&from, &kept, &directory, &name).map_err(failed)?;
        sys::fsync(&directory).map_err(failed)
    }

    /// Opens a regular file; `None` if absent.
    fn regular(&self, path: &Path) -> Result<Option<OwnedFd>, FileError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match self.tree.open_at(Question::Read, path, flags) {
            Ok(file) => file,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = sys::fstat(&file)
            .map_err(|errno| FileError::new(Question::Read, path, errno.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(file)),
            _ => {
                let source = io::Error::new(io::ErrorKind::InvalidData, "not a regular file");
                Err(FileError::new(Question::Read, path, source))
            }
        }
    }
}

fn copy(from: OwnedFd, directory: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<()> {
    let stat = sys::fstat(&from)?;
    let meta = FileMeta {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        attributes: attributes(&from)?,
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let to = sys::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    let mut to = File::from(to);
    io::copy(&mut File::from(from), &mut to)?;
    copy_meta(&to, &meta)?;
    to.sync_all()
}

struct Hash(sha2::Sha256);

impl io::Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
