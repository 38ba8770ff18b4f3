//! Connections whose two ends prove to each other that they know one secret, and frames that nobody else can make. This module uses no
//! sockets: [`Tcp`](crate::bootstrap::Tcp) has its own, and so have the probes of gdr between machines, with other deadlines.

mod frames;
mod handshake;

pub use frames::{FrameError, FrameReader, FrameWriter, LONGEST};
pub use handshake::{Handshake, Key, MESSAGE, Next, Rejection, Session, rejection_message};

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes from the kernel, for secrets.
///
/// # Errors
///
/// Those of getrandom.
pub fn random<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    let mut filled = 0;
    while filled < COUNT {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
