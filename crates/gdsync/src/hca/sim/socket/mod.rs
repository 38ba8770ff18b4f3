//! Two software HCAs of two processes: a link over a UNIX stream socket.
//!
//! Each side is given its end of the socket, from a pair, or one that connected to the other by a path:
//!
//! ```
//! use gdsync::Allocator;
//! use gdsync::hca::sim::{SimHca, socket};
//! use gpu::Gpu;
//! use std::os::unix::net::UnixStream;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (near, far) = UnixStream::pair()?;
//! let other = std::thread::spawn(move || {
//!     // Another process, in earnest: so each is told its LID.
//!     let hca = SimHca::with_lid(Allocator::new(Gpu::sim(), None), 2)?;
//!     let joined = socket::join(&hca, far, socket::Options::default())?;
//!     Ok::<_, gdsync::Error>((joined, hca))
//! });
//! let hca = SimHca::with_lid(Allocator::new(Gpu::sim(), None), 1)?;
//! let joined = socket::join(&hca, near, socket::Options::default())?;
//! assert_eq!(joined.lid(), 2);
//! # other.join().expect("no panic")?;
//! # Ok(())
//! # }
//! ```
//!
//! On the socket each side says a hello of twelve bytes ([`MAGIC`], [`VERSION`], its LID), and then messages of a [head](HEAD) of 64 bytes and
//! what they bring. No byte of the remote side is trusted: what is no message, or a message that makes no sense, ends the link with
//! words, and memory is taken for what has come alone. Who may write to the socket may use the memory that is registered for
//! remote access, as with a NIC: so the other end must be a process of the same user.
//!
//! A link ends when its [`Connection`] is dropped, when the remote side's is, when the far process ends or breaks the rules, or when
//! it takes or answers nothing for [`Options::timeout`]. Then every request in progress over it completes with
//! [`TransportRetry`](crate::wire::Syndrome::TransportRetry), and so does every later one: as with a far HCA of this process
//! that is gone. What was posted to receive stays posted, as with a NIC: nobody tells it.

mod error;
mod frame;
mod hello;
#[cfg(test)]
mod tests;
mod way;

pub use error::Error;
pub use frame::{HEAD, Messages, NotAMessage, Ports, encode};
pub use hello::{MAGIC, VERSION, hello};

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::link::Link;
use super::{Shared, SimHca};
use way::Way;

/// How a link waits, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// The remote side is taken for gone where it says no hello, takes no byte, or says nothing while a request waits for its answer,
    /// for so long; at least a millisecond.
    pub timeout: Duration,
    /// So many bytes may wait to be written; a request beyond them is tried again later, as one that met nothing posted. One message
    /// may always wait, whatever its size.
    pub room: u64,
}

impl Default for Options {
    /// Ten seconds, as long as a NIC tries with common settings; 256 MiB.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            room: 256 << 20,
        }
    }
}

/// A link to an HCA of another process. Dropped, it ends: what was said is written first, if the remote side takes it within a
/// second.
#[derive(Debug)]
pub struct Connection {
    way: Arc<Way>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

const LINGER: Duration = Duration::from_secs(1);

/// Joins `hca` to the one that is given the other end of `stream`. Both must do it, and wait for each other's hello.
///
/// # Errors
///
/// [`Error::SameLid`], on both sides, where the two LIDs are equal; [`Error::Taken`] where this HCA reaches the far LID otherwise, and
/// then the remote side sees the link end; [`Error::OtherUser`] where the kernel says that the other end is another user's;
/// [`Error::NotAnHca`], [`Error::Version`], [`Error::Unnamed`], [`Error::Closed`] and
/// [`Error::Io`]. The socket is closed then.
pub fn join(hca: &SimHca, stream: UnixStream, options: Options) -> Result<Connection, Error> {
    let options = Options {
        timeout: options.timeout.max(Duration::from_millis(1)),
        ..options
    };
    same_user(&stream)?;
    let local = hca.lid();
    let peer = hello::exchange(&stream, local, options.timeout)?;
    let clone = || {
        stream
            .try_clone()
            .map_err(Error::io("use the socket between two HCAs twice"))
    };
    let (reading, writing) = (clone()?, clone()?);
    let ports = Ports { local, peer };
    let way = Arc::new(Way::new(
        ports,
        Arc::clone(&hca.shared.inbox),
        stream,
        options,
    ));
    {
        let mut state = hca.shared.lock();
        if state.links.contains_key(&peer) {
            return Err(Error::Taken { lid: peer });
        }
        state.links.insert(peer, Arc::clone(&way) as Arc<dyn Link>);
    }
    // From here on its end undoes all of it.
    let mut connection = Connection {
        way,
        shared: Arc::clone(&hca.shared),
        threads: Vec::new(),
    };
    connection.start("reads", move |way| read(way, reading))?;
    connection.start("writes", move |way| write(way, writing, options.timeout))?;
    Ok(connection)
}

/// Whoever is joined may use the memory that is registered for remote access: no other user is, whatever the modes of the
/// socket's directory are.
fn same_user(stream: &UnixStream) -> Result<(), Error> {
    let peer = rustix::net::sockopt::socket_peercred(stream)
        .map_err(|error| Error::io("learn whose the other end of the socket is")(error.into()))?;
    let (local, peer) = (rustix::process::geteuid().as_raw(), peer.uid.as_raw());
    match local == peer {
        true => Ok(()),
        false => Err(Error::OtherUser { local, peer }),
    }
}

impl Connection {
    /// The far port's LID.
    #[must_use]
    pub fn lid(&self) -> u16 {
        self.way.ports.peer
    }

    /// Why the link ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<Arc<Error>> {
        self.way.ended()
    }

    fn start(&mut self, does: &str, work: impl FnOnce(&Way) + Send + 'static) -> Result<(), Error> {
        let way = Arc::clone(&self.way);
        let name = format!("sim HCA {} {does}", way.ports.local);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || work(&way));
        let thread = thread.map_err(Error::io("start a thread of the link between two HCAs"))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.way.close(LINGER);
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
        // It stood there alone: another link to that LID was refused meanwhile.
        let ours = Arc::as_ptr(&self.way).cast::<()>();
        let mut state = self.shared.lock();
        let lid = self.way.ports.peer;
        let is_ours = |link: &Arc<dyn Link>| Arc::as_ptr(link).cast::<()>() == ours;
        let link = match state.links.get(&lid) {
            Some(link) if is_ours(link) => state.links.remove(&lid),
            _ => None,
        };
        drop(state);
        drop(link);
    }
}

/// However a thread ends, the link has ended with it.
struct End<'a>(&'a Way);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end(Error::Dropped);
    }
}

fn read(way: &Way, stream: UnixStream) {
    let _end = End(way);
    let mut messages = Messages::new(BufReader::with_capacity(64 << 10, stream), way.ports);
    loop {
        match one(way, &mut messages) {
            Ok(true) => {}
            Ok(false) => return way.end(Error::Closed),
            Err(error) => return way.end(error),
        }
    }
}

/// Takes one message; false at the end.
fn one(way: &Way, messages: &mut Messages<BufReader<UnixStream>>) -> Result<bool, Error> {
    let Some(head) = messages.head()? else {
        return Ok(false);
    };
    way.admit(&head).map_err(|what| Error::OutOfPlace {
        offset: messages.offset,
        qpn: head.message.from.qpn,
        sequence: head.message.sequence,
        what,
    })?;
    let bytes = messages.brought(head.length, || way.moved())?;
    way.arrived(head.with(bytes));
    Ok(true)
}

fn write(way: &Way, mut stream: UnixStream, timeout: Duration) {
    let _end = End(way);
    while let Some(message) = way.next() {
        if let Err(error) = frame::write(&mut stream, &message, || way.moved()) {
            return way.end(match hello::is_late(&error) {
                true => Error::NotRead(timeout),
                false => hello::gone(error),
            });
        }
        way.written(&message);
    }
}
