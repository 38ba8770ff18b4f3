//! Regular files with content, permissions, owner and extended attributes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{self as sys, AtFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::Executor;
use crate::model::{FileMeta, Hex, Question};
use crate::world::FileError;

/// Real files of modprobe.d, systemd, udev and GRUB have a few KiB.
pub const LARGEST: u64 = 1 << 20;

/// XATTR_SIZE_MAX and XATTR_LIST_MAX.
const LARGEST_ATTRIBUTE: usize = 65536;

/// A file with everything that a replacement must keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileImage {
    pub content: Vec<u8>,
    pub meta: FileMeta,
    /// Number of hard links; a replacement would separate them.
    pub links: u64,
}

impl Executor {
    /// Reads a file; `None` if absent, an error if not a regular file.
    pub fn file(&self, path: &Path) -> Result<Option<FileImage>, FileError> {
        let (directory, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(error),
        };
        let failed = |source: io::Error| FileError::new(Question::Read, path, source);
        let wrong =
            |words: &str| failed(io::Error::new(io::ErrorKind::InvalidData, words.to_owned()));
        let stat = match sys::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => {
                return Err(wrong("a symbolic link: gdr does not write through links"));
            }
            _ => return Err(wrong("not a regular file")),
        }
        // Without NONBLOCK a pipe created between the two calls would block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match sys::openat(&directory, &name, flags, Mode::empty()) {
            Ok(file) => file,
            // Removed since the call above.
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        };
        let stat = sys::fstat(&file).map_err(|errno| failed(errno.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(wrong("not a regular file"));
        }
        if u64::try_from(stat.st_size).is_ok_and(|size| size > LARGEST) {
            return Err(wrong("larger than 1 MiB, the limit for files that gdr changes"));
        }
        let attributes = attributes(&file).map_err(failed)?;
        let mut content = Vec::new();
        File::from(file).take(LARGEST).read_to_end(&mut content).map_err(failed)?;
        Ok(Some(FileImage {
            content,
            meta: FileMeta {
                mode: stat.st_mode & 0o7777,
                uid: stat.st_uid,
                gid: stat.st_gid,
                attributes,
            },
            #[allow(clippy::useless_conversion)] // Its type depends on the architecture.
            links: u64::from(stat.st_nlink),
        }))
    }

    /// Replaces a file atomically.
    pub fn replace(&self, path: &Path, image: &FileImage) -> Result<(), FileError> {
        let failed = |errno: Errno| FileError::new(Question::Write, path, errno.into());
        let (directory, name) = self.parent(path)?;
        let beside = beside(&name);
        let _ = sys::unlinkat(&directory, &beside, AtFlags::empty());
        let written = write_new(&directory, &beside, image);
        let placed = written.and_then(|()| {
            sys::renameat(&directory, &beside, &directory, &name).map_err(io::Error::from)
        });
        if let Err(source) = placed {
            // Ignored: the next `sweep` removes the file.
            let _ = sys::unlinkat(&directory, &beside, AtFlags::empty());
            return Err(FileError::new(Question::Write, path, source));
        }
        sys::fsync(&directory).map_err(failed)
    }

    /// Removes what an interrupted [`Executor::replace`] left.
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
}

/// Creates a file and syncs it to disk.
pub(super) fn write_new(directory: impl AsFd, name: &OsStr, image: &FileImage) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = sys::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(file);
    file.write_all(&image.content)?;
    // After the content, because a write drops file capabilities.
    copy_meta(&file, &image.meta)?;
    file.sync_all()
}

/// Sets permissions, owner and extended attributes; an error names what cannot be kept.
pub(super) fn copy_meta(file: &File, meta: &FileMeta) -> io::Result<()> {
    let stat = sys::fstat(file)?;
    if (stat.st_uid, stat.st_gid) != (meta.uid, meta.gid) {
        sys::fchown(file, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
    }
    sys::fchmod(file, Mode::from_raw_mode(meta.mode))?;
    // The kernel may have set the same security label already, which this user may not set.
    let given = attributes(file)?;
    for (name, value) in &meta.attributes {
        if given.get(name) == Some(value) {
            continue;
        }
        sys::fsetxattr(file, name.as_str(), &value.0, XattrFlags::empty()).map_err(|errno| {
            let cause = io::Error::from(errno);
            io::Error::new(
                cause.kind(),
                format!("cannot keep its extended attribute {name}: {cause}"),
            )
        })?;
    }
    Ok(())
}

/// The extended attributes of a file; empty if the file system has none.
pub(super) fn attributes(file: impl AsFd) -> io::Result<BTreeMap<String, Hex>> {
    let mut names = vec![0; LARGEST_ATTRIBUTE];
    let length = match sys::flistxattr(&file, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(BTreeMap::new()),
        Err(errno) => return Err(errno.into()),
    };
    let mut found = BTreeMap::new();
    let mut value = vec![0; LARGEST_ATTRIBUTE];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the name of an extended attribute is not UTF-8",
            ));
        };
        let length = sys::fgetxattr(&file, name, &mut value[..])?;
        found.insert(name.to_owned(), Hex(value[..length].to_vec()));
    }
    Ok(found)
}

/// The temporary name of a file before it replaces `name`.
pub(super) fn beside(name: &OsStr) -> OsString {
    let mut beside = OsString::from(".");
    beside.push(name);
    beside.push(".gdr-new");
    beside
}
