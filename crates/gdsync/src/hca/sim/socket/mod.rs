//! Links simulated HCAs of two processes over a UNIX stream socket.
//!
//! Each side passes its end of the socket:
//!
//! ```
//! use gdsync::Allocator;
//! use gdsync::hca::sim::{SimHca, socket};
//! use gpu::Gpu;
//! use std::os::unix::net::UnixStream;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (local, remote) = UnixStream::pair()?;
//! let other = std::thread::spawn(move || {
//!     // In practice this is another process, so the LIDs are explicit.
//!     let hca = SimHca::with_lid(Allocator::new(Gpu::sim(), None), 2)?;
//!     let connection = socket::join(&hca, remote, socket::Options::default())?;
//!     Ok::<_, gdsync::Error>((connection, hca))
//! });
//! let hca = SimHca::with_lid(Allocator::new(Gpu::sim(), None), 1)?;
//! let connection = socket::join(&hca, local, socket::Options::default())?;
//! assert_eq!(connection.lid(), 2);
//! # other.join().expect("no panic")?;
//! # Ok(())
//! # }
//! ```
//!
//! Each side sends a hello of twelve bytes ([`MAGIC`], [`VERSION`], its LID), then messages: a [head](HEAD) of 64 bytes and their
//! data. Input is not trusted: a malformed or unexpected message ends the link with an error, and memory is allocated only for
//! received bytes. The peer can access memory registered for remote access, so it must be a process of the same user.
//!
//! A link ends when either [`Connection`] is dropped, when the remote process exits or violates the protocol, or when it reads or
//! answers nothing for [`Options::timeout`]. Current and later requests over it then complete with
//! [`TransportRetry`](crate::wire::Syndrome::TransportRetry). Posted receives stay posted, as on a NIC.

mod channel;
mod error;
mod frame;
mod hello;
mod polled;
#[cfg(test)]
mod tests;

pub use error::Error;
pub use frame::{HEAD, MalformedHead, Messages, Ports, encode};
pub use hello::{MAGIC, VERSION, hello};

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::link::Link;
use super::{Shared, SimHca};
use channel::{Channel, Unsent};
use polled::Polled;

/// Limits of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Limit for the hello, for each write, and for silence while a request has no answer; at least one millisecond.
    pub timeout: Duration,
    /// Limit of bytes waiting to be written. A request beyond it is retried later. One message of any size may always wait.
    pub room: u64,
    /// How long the thread that reads polls after each message before it sleeps. Waking it takes several microseconds, polling
    /// occupies a CPU.
    pub spin: Duration,
}

impl Default for Options {
    /// Ten seconds, the retry time of a NIC with common settings; 256 MiB; no polling.
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), room: 256 << 20, spin: Duration::ZERO }
    }
}

/// A link to an HCA of another process. Dropping it ends the link, after writing pending messages for up to one second.
#[derive(Debug)]
pub struct Connection {
    channel: Arc<Channel>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

const LINGER: Duration = Duration::from_secs(1);

/// Links `hca` to the HCA at the other end of `stream`, which must call this too. Waits for its hello.
///
/// # Errors
///
/// [`Error::SameLid`], on both sides, if the LIDs are equal; [`Error::Taken`] if this HCA already has a link to the remote LID (the
/// remote side then sees the link end); [`Error::OtherUser`] if another user's process has the other end;
/// [`Error::NotAnHca`], [`Error::Version`], [`Error::NoHello`], [`Error::Closed`] and
/// [`Error::Io`]. The socket is closed on error.
pub fn join(hca: &SimHca, stream: UnixStream, options: Options) -> Result<Connection, Error> {
    let options = Options { timeout: options.timeout.max(Duration::from_millis(1)), ..options };
    same_user(&stream)?;
    let local = hca.lid();
    let peer = hello::exchange(&stream, local, options.timeout)?;
    let clone = || stream.try_clone().map_err(Error::io("duplicate the socket between two HCAs"));
    let (reading, writing) = (clone()?, clone()?);
    let ports = Ports { local, peer };
    let channel = Arc::new(Channel::new(ports, Arc::clone(&hca.shared.inbox), stream, options));
    {
        let mut state = hca.shared.lock();
        if state.links.contains_key(&peer) {
            return Err(Error::Taken { lid: peer });
        }
        state.links.insert(peer, Arc::clone(&channel) as Arc<dyn Link>);
    }
    // From here on, dropping the connection undoes everything.
    let mut connection =
        Connection { channel, shared: Arc::clone(&hca.shared), threads: Vec::new() };
    let reading = Polled::new(reading, options.spin);
    connection.start("reads", move |channel| read(channel, reading))?;
    connection.start("writes", move |channel| write(channel, writing, options.timeout))?;
    Ok(connection)
}

/// Checks that the peer has the same user, because it can access memory registered for remote access.
fn same_user(stream: &UnixStream) -> Result<(), Error> {
    let peer = rustix::net::sockopt::socket_peercred(stream)
        .map_err(|error| Error::io("read the credentials of the socket's peer")(error.into()))?;
    let (local, peer) = (rustix::process::geteuid().as_raw(), peer.uid.as_raw());
    if local == peer { Ok(()) } else { Err(Error::OtherUser { local, peer }) }
}

impl Connection {
    /// The remote LID.
    #[must_use]
    pub fn lid(&self) -> u16 {
        self.channel.ports.peer
    }

    /// Why the link ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<Arc<Error>> {
        self.channel.ended()
    }

    fn start(
        &mut self,
        does: &str,
        work: impl FnOnce(&Channel) + Send + 'static,
    ) -> Result<(), Error> {
        let channel = Arc::clone(&self.channel);
        let name = format!("sim HCA {} {does}", channel.ports.local);
        let thread = std::thread::Builder::new().name(name).spawn(move || work(&channel));
        let thread = thread.map_err(Error::io("start a thread of the link between two HCAs"))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.channel.close(LINGER);
        for thread in self.threads.drain(..) {
            // Ignored: a panicked thread needs no further handling.
            let _ = thread.join();
        }
        // Remove it only if it is ours: without this check a replacement by `SimHca::link` would be removed.
        let ours = Arc::as_ptr(&self.channel).cast::<()>();
        let mut state = self.shared.lock();
        let lid = self.channel.ports.peer;
        let is_ours = |link: &Arc<dyn Link>| Arc::as_ptr(link).cast::<()>() == ours;
        let link = match state.links.get(&lid) {
            Some(link) if is_ours(link) => state.links.remove(&lid),
            _ => None,
        };
        drop(state);
        drop(link);
    }
}

/// Ends the link when a thread ends, even by a panic.
struct End<'a>(&'a Channel);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end(Error::Dropped);
    }
}

fn read(channel: &Channel, stream: Polled) {
    let _end = End(channel);
    let mut messages = Messages::new(BufReader::with_capacity(64 << 10, stream), channel.ports);
    loop {
        match read_one(channel, &mut messages) {
            Ok(true) => {}
            Ok(false) => return channel.end(Error::Closed),
            Err(error) => return channel.end(error),
        }
    }
}

/// Reads one message; false at the end.
fn read_one(channel: &Channel, messages: &mut Messages<BufReader<Polled>>) -> Result<bool, Error> {
    let Some(head) = messages.head()? else {
        return Ok(false);
    };
    channel.admit(&head).map_err(|what| Error::Unexpected {
        offset: messages.offset,
        qpn: head.message.from.qpn,
        sequence: head.message.sequence,
        what,
    })?;
    let bytes = messages.payload(head.length, || channel.moved())?;
    channel.arrived(head.with(bytes));
    Ok(true)
}

fn write(channel: &Channel, mut stream: UnixStream, timeout: Duration) {
    let _end = End(channel);
    while let Some(Unsent { message, written }) = channel.next() {
        if let Err(error) = frame::write(&mut stream, &message, written, || channel.moved()) {
            return channel.end(if hello::is_late(&error) {
                Error::NotRead(timeout)
            } else {
                hello::gone(error)
            });
        }
        channel.written(&message);
    }
}
