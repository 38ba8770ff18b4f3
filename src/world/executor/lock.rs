//! The lock for changes of the machine. Programs that gdr started hold it too while they run.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{self as sys, FlockOperation};
use rustix::io::Errno;

/// Released when dropped, or when the process and the programs that it started end.
pub struct Lock(OwnedFd);

impl Drop for Lock {
    /// Unlocks explicitly: a program just being started by another thread has a copy of the descriptor.
    fn drop(&mut self) {
        let _ = sys::flock(&self.0, FlockOperation::Unlock);
    }
}

pub enum Locked {
    Ours(Lock),
    /// Held by these processes, as far as they can be found.
    Theirs(Vec<Holder>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// Program name, at most 15 bytes (`/proc/PID/comm`).
    pub name: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

pub(super) fn lock(file: OwnedFd) -> Result<Locked, Errno> {
    match sys::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Locked::Ours(Lock(file))),
        Err(Errno::WOULDBLOCK) => Ok(Locked::Theirs(holders(&file))),
        Err(errno) => Err(errno),
    }
}

/// Other processes that have this file open. The kernel's list of locks names only the process that took the lock,
/// which may have ended.
fn holders(file: &OwnedFd) -> Vec<Holder> {
    let Ok(stat) = sys::fstat(file) else {
        return Vec::new();
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it_open = |pid: &u32| {
        let descriptors =
            std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors
            .filter_map(|entry| std::fs::metadata(entry.path()).ok())
            .any(|meta| (meta.dev(), meta.ino()) == (stat.st_dev, stat.st_ino))
    };
    ids.filter(|pid| *pid != std::process::id() && has_it_open(pid))
        .map(|pid| Holder {
            pid,
            name: std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .map_or_else(|_| "a process".to_owned(), |name| name.trim_end().to_owned()),
        })
        .collect()
}
