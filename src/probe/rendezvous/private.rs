//! Files that hold a secret: they are read only if this user owns them and no other user may read or write them. The checks use
//! the open descriptor, so that the file cannot be replaced between the check and the read.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat};

/// Longest file.
const MAX_BYTES: u64 = 1024;
/// The bits of a mode that let group or others read, write or execute.
const GROUP_OTHER_BITS: u32 = 0o077;
const OTHER_WRITE_BIT: u32 = 0o002;
/// In such a directory a file is renamed and removed by its owner and the directory's alone.
const STICKY: u32 = 0o1000;

/// Treatment of a symbolic link as the last component of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// It may: the user named the path.
    Follow,
    /// It may not: others can guess the path.
    Refuse,
}

/// Requirements on owner and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privacy {
    /// The file holds a secret.
    Required,
    /// It holds no secret.
    NotNeeded,
}

/// Reads a file, relative to an open directory.
pub fn read(
    directory: impl AsFd,
    path: &Path,
    links: Links,
    privacy: Privacy,
) -> io::Result<String> {
    let nofollow = match links {
        Links::Follow => OFlags::empty(),
        Links::Refuse => OFlags::NOFOLLOW,
    };
    // Opening a FIFO must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | nofollow;
    let file = match rustix::fs::openat(directory, path, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) if links == Links::Refuse => {
            return Err(io::Error::other("it is a symbolic link, which is not followed"));
        }
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    if privacy == Privacy::Required {
        check(&stat)?;
    }
    let mut text = String::new();
    File::from(file).take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Checks a file that this process made: a file system may have owners and modes of its own.
pub fn check_written(file: impl AsFd) -> io::Result<()> {
    check(&rustix::fs::fstat(file)?)
}

fn check(stat: &Stat) -> io::Result<()> {
    let ours = rustix::process::geteuid().as_raw();
    if stat.st_uid != ours {
        return Err(io::Error::other(format!(
            "its owner is uid {}, and this process has uid {ours}",
            stat.st_uid
        )));
    }
    if stat.st_mode & GROUP_OTHER_BITS != 0 {
        return Err(io::Error::other(format!(
            "its mode is {:04o}, and group or others have rights: chmod 600",
            stat.st_mode & 0o7777
        )));
    }
    Ok(())
}

/// Checks that no other user can replace this user's files in a directory. A world-writable directory must be sticky and belong to
/// root or this user, because the owner of a directory can rename all files in it.
pub fn check_directory(directory: impl AsFd) -> io::Result<()> {
    let stat = rustix::fs::fstat(directory)?;
    if stat.st_mode & OTHER_WRITE_BIT == 0 {
        return Ok(());
    }
    if stat.st_mode & STICKY == 0 {
        return Err(io::Error::other(format!(
            "any user can replace files in its directory, whose mode is {:04o}",
            stat.st_mode & 0o7777
        )));
    }
    if [0, rustix::process::geteuid().as_raw()].contains(&stat.st_uid) {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "its directory is world-writable, and its owner is uid {}: neither root nor this user",
            stat.st_uid
        )))
    }
}
