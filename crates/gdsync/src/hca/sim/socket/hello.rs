//! What each side says first: that it is a software HCA, of which version, and its port's LID.
//!
//! Twelve bytes: [`MAGIC`], then the version and the LID, 16 bits each, big-endian. Both sides say it at once, and neither says more
//! before it has read the other's.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::error::Error;

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"gdr-sim\n";
/// What this side speaks.
pub const VERSION: u16 = 1;

const BYTES: usize = 12;

/// What the side with this LID says.
#[must_use]
pub fn hello(lid: u16) -> [u8; BYTES] {
    let mut hello = [0; BYTES];
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..10].copy_from_slice(&VERSION.to_be_bytes());
    hello[10..].copy_from_slice(&lid.to_be_bytes());
    hello
}

/// Says hello, and gives the remote side's LID.
pub(super) fn exchange(stream: &UnixStream, local: u16, timeout: Duration) -> Result<u16, Error> {
    let mut both = stream;
    let begun = Instant::now();
    stream
        .set_nonblocking(false)
        .map_err(Error::io("prepare the socket between two HCAs"))?;
    stream.set_write_timeout(Some(timeout)).map_err(Error::io(
        "limit how long the socket between two HCAs is written to",
    ))?;
    both.write_all(&hello(local))
        .map_err(|error| match is_late(&error) {
            true => Error::NotRead(timeout),
            false => gone(error),
        })?;
    let mut said = [0; BYTES];
    let mut some = 0;
    while let Some(room) = said.get_mut(some..).filter(|room| !room.is_empty()) {
        let left = timeout
            .saturating_sub(begun.elapsed())
            .max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left)).map_err(Error::io(
            "limit how long the socket between two HCAs is read from",
        ))?;
        match both.read(room) {
            Ok(0) if some == 0 => return Err(Error::Closed),
            Ok(0) => return Err(Error::NotAnHca(first(&said))),
            Ok(count) => some += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(gone(error)),
        }
        if some < BYTES && begun.elapsed() >= timeout {
            return Err(Error::Unnamed(timeout));
        }
    }
    stream.set_read_timeout(None).map_err(Error::io(
        "let the socket between two HCAs be read from for long",
    ))?;
    check(said, local)
}

fn check(said: [u8; BYTES], local: u16) -> Result<u16, Error> {
    let [.., version_high, version_low, lid_high, lid_low] = said;
    let peer = u16::from_be_bytes([version_high, version_low]);
    let lid = u16::from_be_bytes([lid_high, lid_low]);
    match first(&said) {
        MAGIC if peer != VERSION => Err(Error::Version {
            local: VERSION,
            peer,
        }),
        MAGIC if lid == local => Err(Error::SameLid { lid }),
        MAGIC => Ok(lid),
        other => Err(Error::NotAnHca(other)),
    }
}

fn first(said: &[u8; BYTES]) -> [u8; 8] {
    said.first_chunk().copied().unwrap_or_default()
}

/// A time limit of the socket was over.
pub(super) fn is_late(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// The remote side closed the socket, or it broke.
pub(super) fn gone(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::NotConnected => Error::Closed,
        _ => Error::io("write to the socket between two HCAs")(error),
    }
}
