//! The hello: each side's first message, with version and LID.
//!
//! Twelve bytes: [`MAGIC`], then version and LID, 16 bits each, big-endian. Both sides send it at once and read the other's before
//! they send more.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::error::Error;

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"gdr-sim\n";
/// The protocol version.
pub const VERSION: u16 = 2;

const BYTES: usize = 12;

/// The hello of a side with this LID.
#[must_use]
pub fn hello(lid: u16) -> [u8; BYTES] {
    let mut hello = [0; BYTES];
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..10].copy_from_slice(&VERSION.to_be_bytes());
    hello[10..].copy_from_slice(&lid.to_be_bytes());
    hello
}

/// Exchanges hellos and returns the remote LID.
pub(super) fn exchange(stream: &UnixStream, local: u16, timeout: Duration) -> Result<u16, Error> {
    let mut both = stream;
    let start = Instant::now();
    stream.set_nonblocking(false).map_err(Error::io("prepare the socket between two HCAs"))?;
    stream
        .set_write_timeout(Some(timeout))
        .map_err(Error::io("set the write timeout of the socket between two HCAs"))?;
    both.write_all(&hello(local))
        .map_err(|error| if is_late(&error) { Error::NotRead(timeout) } else { gone(error) })?;
    let mut received = [0; BYTES];
    let mut count = 0;
    while let Some(room) = received.get_mut(count..).filter(|room| !room.is_empty()) {
        let left = timeout.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        stream
            .set_read_timeout(Some(left))
            .map_err(Error::io("set the read timeout of the socket between two HCAs"))?;
        match both.read(room) {
            Ok(0) if count == 0 => return Err(Error::Closed),
            Ok(0) => return Err(Error::NotAnHca(first(&received))),
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_late(&error) => {}
            Err(error) => return Err(gone(error)),
        }
        if count < BYTES && start.elapsed() >= timeout {
            return Err(Error::NoHello(timeout));
        }
    }
    stream
        .set_read_timeout(None)
        .map_err(Error::io("clear the read timeout of the socket between two HCAs"))?;
    check(received, local)
}

fn check(received: [u8; BYTES], local: u16) -> Result<u16, Error> {
    let [.., version_high, version_low, lid_high, lid_low] = received;
    let peer = u16::from_be_bytes([version_high, version_low]);
    let lid = u16::from_be_bytes([lid_high, lid_low]);
    match first(&received) {
        MAGIC if peer != VERSION => Err(Error::Version { local: VERSION, peer }),
        MAGIC if lid == local => Err(Error::SameLid { lid }),
        MAGIC => Ok(lid),
        other => Err(Error::NotAnHca(other)),
    }
}

fn first(received: &[u8; BYTES]) -> [u8; 8] {
    received.first_chunk().copied().unwrap_or_default()
}

/// True for a timeout of the socket.
pub(super) fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The error of a write: closed by the remote side, or failed.
pub(super) fn gone(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::NotConnected => Error::Closed,
        _ => Error::io("write to the socket between two HCAs")(error),
    }
}
