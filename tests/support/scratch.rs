//! Where machines are laid out: thousands of small files that live for a second.

use tempfile::TempDir;

/// Where Linux has a file system in memory, and how many bytes have to be free there.
const MEMORY: (&str, u64) = ("/dev/shm", 1 << 30);

/// A directory in memory where there is room for it, else where temporary files are. On ext4 a new file may cost a
/// millisecond: each inode that was freed within the last minute is looked at before one is given out. No program is to be
/// started from here, nor a library loaded: the place may forbid it.
pub fn scratch() -> TempDir {
    let (memory, room) = MEMORY;
    let free = rustix::fs::statvfs(memory).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    let in_memory = (free >= room).then(|| tempfile::tempdir_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a temporary directory"))
}
