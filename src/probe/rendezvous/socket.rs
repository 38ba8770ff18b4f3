//! Non-blocking sockets: waits with a timeout, writes, and draining.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// True for an error after which the call is repeated.
pub fn again(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Waits until there is something to read, or an end.
pub fn readable(stream: &TcpStream, wait: Duration) -> bool {
    any_ready(&mut [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::IN)], wait)
}

/// True if a write would not block.
pub fn writable(stream: &TcpStream) -> bool {
    let out = PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::OUT);
    any_ready(&mut [out], Duration::ZERO)
}

/// Waits for an event of any of the descriptors.
pub fn any_ready(descriptors: &mut [PollFd<'_>], wait: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    };
    matches!(poll(descriptors, Some(&timeout)), Ok(1..))
}

/// Writes all of it to a stream that does not block.
pub fn write_all(
    mut stream: &TcpStream,
    mut bytes: &[u8],
    until: Instant,
    go_on: &dyn Fn() -> bool,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if again(&error) => {
                if Instant::now() >= until || !go_on() {
                    return Err(ErrorKind::TimedOut.into());
                }
                let slice =
                    until.saturating_duration_since(Instant::now()).min(Duration::from_millis(100));
                any_ready(&mut [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::OUT)], slice);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Discards input until its end or the deadline: unread bytes at close reset the connection, and the peer would lose the last
/// message.
pub fn drain(mut stream: &TcpStream, until: Instant) {
    let mut buffer = [0; 16384];
    while Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now());
        match readable(stream, left).then(|| stream.read(&mut buffer)) {
            Some(Ok(1..)) => {}
            Some(Err(error)) if again(&error) => {}
            Some(_) | None => return,
        }
    }
}
