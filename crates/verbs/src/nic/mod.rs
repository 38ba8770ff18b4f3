//! What the kernel says of a NIC's port beside verbs: its counters ([`Port`], [`statistics`], [`function_errors`]), and how its network
//! interface treats priorities ([`dcb()`], [`pause`]).
//!
//! Reads only. Unsafe code is limited to one ioctl (`ethtool.rs`). Nothing here judges a value.

mod dcb;
mod ethtool;
mod netlink;
mod sysfs;

use std::ffi::CString;
use std::io;

pub use dcb::{APP_DSCP, App, Dcb, PRIORITIES, dcb, layout};
pub use ethtool::{pause, statistics};
pub use sysfs::{Port, Reading, function_errors, ports};

/// Bytes of an interface's name, with its NUL.
const NAME: usize = libc::IFNAMSIZ;

/// An interface's name as the kernel takes it.
fn checked(interface: &str) -> io::Result<CString> {
    let is_sound = !interface.is_empty() && interface.len() < NAME && !interface.contains('/');
    match CString::new(interface) {
        Ok(name) if is_sound => Ok(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}
