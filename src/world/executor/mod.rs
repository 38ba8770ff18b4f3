//! Changes a machine, live or in a directory: files, registers, attributes, programs.
//!
//! Paths are resolved like in [`Tree`]: links cannot leave a directory, and a last component that is a link is not
//! followed. Files are replaced by rename and synced before the call returns.

mod file;
mod image;
mod lock;
mod private;
mod programs;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{self as sys, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::FileError;
use super::tree::Tree;
use crate::model::{Bdf, DeviceNode, Question};

pub use file::{FileImage, LARGEST};
pub use lock::{Holder, Lock, Locked};
pub use private::PrivateDirectory;
use programs::Programs;
pub use programs::{CommandLine, Program, Ran};

/// Retries to open a directory that other processes create.
const ATTEMPTS: u32 = 3;

pub struct Executor {
    tree: Tree,
    programs: Programs,
    is_laid_out: bool,
}

impl Executor {
    /// This machine; `timeout` applies to each program.
    pub fn live(timeout: Duration) -> Result<Self, FileError> {
        Ok(Self { tree: Tree::live()?, programs: Programs::live(timeout), is_laid_out: false })
    }

    /// A machine in a directory, with programs from `tools` if given.
    pub fn directory(
        root: &Path,
        tools: Option<&Path>,
        timeout: Duration,
    ) -> Result<Self, FileError> {
        Ok(Self {
            tree: Tree::directory(root)?,
            programs: Programs::laid_out(root, tools, timeout),
            is_laid_out: true,
        })
    }

    pub fn remove(&self, path: &Path) -> Result<(), FileError> {
        let failed = |errno: Errno| FileError::new(Question::Write, path, errno.into());
        let (directory, name) = self.parent(path)?;
        sys::unlinkat(&directory, &name, AtFlags::empty()).map_err(failed)?;
        sys::fsync(&directory).map_err(failed)
    }

    /// The missing directories above a path, outermost first.
    pub fn missing_above(&self, path: &Path) -> Result<Vec<PathBuf>, FileError> {
        let mut missing = Vec::new();
        for directory in path.ancestors().skip(1) {
            match self.existing_directory(Question::State, directory, OFlags::empty())? {
                Some(_) => break,
                None => missing.insert(0, directory.to_owned()),
            }
        }
        Ok(missing)
    }

    /// Creates a directory with these permissions, ignoring the umask.
    pub fn make_directory(&self, path: &Path, mode: u32) -> Result<(), FileError> {
        let failed = |errno: Errno| FileError::new(Question::Write, path, errno.into());
        let (above, name) = self.parent(path)?;
        match sys::mkdirat(&above, &name, Mode::RWXU) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = sys::openat(&above, &name, flags, Mode::empty()).map_err(failed)?;
        sys::fchmod(&made, Mode::from_raw_mode(mode)).map_err(failed)?;
        sys::fsync(&above).map_err(failed)
    }

    /// Removes an empty directory; false if it is not empty or absent.
    pub fn remove_directory(&self, path: &Path) -> Result<bool, FileError> {
        // On a read-only file system even removing a missing directory fails.
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

    /// Reads configuration space; shorter at its end.
    pub fn read_config(&self, bdf: Bdf, offset: u16, length: usize) -> Result<Vec<u8>, FileError> {
        let path = config(bdf);
        let failed = |errno: Errno| FileError::new(Question::Read, &path, errno.into());
        let file = self.tree.open_at(Question::Read, &path, OFlags::RDONLY | OFlags::NOFOLLOW)?;
        let mut bytes = vec![0; length];
        let count = rustix::io::pread(&file, &mut bytes, offset.into()).map_err(failed)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Writes a register in one transaction of 1, 2 or 4 bytes.
    pub fn write_config(&self, bdf: Bdf, offset: u16, bytes: &[u8]) -> Result<(), FileError> {
        let path = config(bdf);
        let failed = |source: io::Error| FileError::new(Question::Write, &path, source);
        let file = self.tree.open_at(Question::Write, &path, OFlags::WRONLY | OFlags::NOFOLLOW)?;
        match rustix::io::pwrite(&file, bytes, offset.into()) {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(failed(io::ErrorKind::WriteZero.into())),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Reads a kernel attribute without trailing white space.
    pub fn attribute(&self, path: &Path) -> Result<String, FileError> {
        let failed = |source: io::Error| FileError::new(Question::Read, path, source);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = std::fs::File::from(self.tree.open_at(Question::Read, path, flags)?);
        let mut text = String::new();
        io::Read::read_to_string(&mut io::Read::take(file, 65536), &mut text).map_err(failed)?;
        Ok(text.trim_end().to_owned())
    }

    pub fn write_attribute(&self, path: &Path, text: &str) -> Result<(), FileError> {
        let failed = |source: io::Error| FileError::new(Question::Write, path, source);
        // The kernel takes one whole write; in a directory the attribute is a plain file.
        if self.is_laid_out
            && let Some(before) = self.file(path)?
        {
            let content = format!("{text}\n").into_bytes();
            return self.replace(path, &FileImage { content, ..before });
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = std::fs::File::from(self.tree.open_at(Question::Write, path, flags)?);
        io::Write::write_all(&mut file, format!("{text}\n").as_bytes()).map_err(failed)
    }

    /// A directory's names, sorted; empty if it does not exist.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, FileError> {
        match super::Files::list(&self.tree, path) {
            Err(error) if error.is_absent() => Ok(Vec::new()),
            names => names,
        }
    }

    /// True if a path exists; links are not followed.
    pub fn is_there(&self, path: &Path) -> Result<bool, FileError> {
        Ok(self.stat(path)?.is_some())
    }

    /// The character device at a path, if there is one.
    pub fn device_node(&self, path: &Path) -> Result<Option<DeviceNode>, FileError> {
        let stat = self.stat(path)?;
        let is_node =
            |stat: &sys::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        Ok(stat.filter(is_node).map(|stat| DeviceNode {
            major: sys::major(stat.st_rdev),
            minor: sys::minor(stat.st_rdev),
            mode: stat.st_mode & 0o7777,
        }))
    }

    pub fn run(&self, command: &CommandLine) -> Ran {
        self.programs.run(command)
    }

    fn stat(&self, path: &Path) -> Result<Option<sys::Stat>, FileError> {
        let (directory, name) = match self.parent(path) {
            Ok(found) => found,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(error),
        };
        match sys::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(FileError::new(Question::State, path, errno.into())),
        }
    }

    /// The directory of a path, and its file name.
    fn parent(&self, path: &Path) -> Result<(OwnedFd, OsString), FileError> {
        let wrong = || FileError::new(Question::State, path, io::ErrorKind::InvalidInput.into());
        let name = path.file_name().ok_or_else(wrong)?;
        let directory = path.parent().ok_or_else(wrong)?;
        Ok((self.directory_at(directory)?, name.to_owned()))
    }

    /// Opens a directory; `None` if absent. A dangling link is an error.
    fn existing_directory(
        &self,
        question: Question,
        path: &Path,
        flags: OFlags,
    ) -> Result<Option<OwnedFd>, FileError> {
        let mut attempts = 1;
        loop {
            match self.tree.open_at(question, path, OFlags::RDONLY | OFlags::DIRECTORY | flags) {
                Ok(directory) => return Ok(Some(directory)),
                Err(error) if !error.is_absent() => return Err(error),
                Err(_) if !self.is_there(path)? => return Ok(None),
                // Another process may have created it between the two calls; a dangling link stays.
                Err(error) if attempts == ATTEMPTS => return Err(error),
                Err(_) => attempts += 1,
            }
        }
    }

    fn directory_at(&self, path: &Path) -> Result<OwnedFd, FileError> {
        self.tree.open_at(Question::State, path, OFlags::RDONLY | OFlags::DIRECTORY)
    }
}

fn config(bdf: Bdf) -> PathBuf {
    PathBuf::from(format!("/sys/bus/pci/devices/{bdf}/config"))
}
