//! Opens a path below a directory component by component, so that links cannot leave it; replaces openat2's
//! RESOLVE_IN_ROOT. Not safe against renames during the walk, which recorded machines do not have.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fs::{self as sys, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The kernel's limit.
const MAX_LINKS: usize = 40;

/// Opens `path` as if `root` were the root directory.
pub fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let follow_last = !flags.contains(OFlags::NOFOLLOW);
    let mut above: Vec<OwnedFd> = Vec::new();
    let mut rest = components(path);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            above.pop();
            continue;
        }
        let here = above.last().map_or(root, std::os::fd::AsFd::as_fd);
        let last = rest.is_empty();
        let step = sys::openat(
            here,
            &name,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        match FileType::from_raw_mode(sys::fstat(&step)?.st_mode) {
            FileType::Symlink if !last || follow_last => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = sys::readlinkat(&step, "", Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                if target.is_absolute() {
                    above.clear();
                }
                for name in components(target).into_iter().rev() {
                    rest.push_front(name);
                }
            }
            _ if last => return sys::openat(here, &name, flags | OFlags::NOFOLLOW, Mode::empty()),
            FileType::Directory => above.push(step),
            _ => return Err(Errno::NOTDIR),
        }
    }
    let here = above.last().map_or(root, std::os::fd::AsFd::as_fd);
    sys::openat(here, ".", flags, Mode::empty())
}

fn components(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}
