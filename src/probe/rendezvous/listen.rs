//! The server: it waits for the one client that proves the secret, and rejects all others. Before a client has proved the secret,
//! what it costs is bounded: 16 sockets, 40 bytes each, for two seconds.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use mp::session::{Handshake, Next, Rejection, Session, rejection_message};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditions::{Conditions, is_exposed};
use super::error::Error;
use super::link::Link;
use super::secret::Secret;
use super::socket::{again, any_ready};
use super::wire::{PROTOCOL, protocol_of};

/// Interval of checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a client may take to prove the secret.
pub const PROOF_TIMEOUT: Duration = Duration::from_secs(2);
/// Most clients in the handshake. A further one evicts one of them.
const MAX_PENDING: usize = 16;
/// Time between two reports of rejected clients.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// A listening port.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    secret: Secret,
}

/// A client that has not proved the secret.
struct Pending {
    stream: TcpStream,
    address: SocketAddr,
    /// None after the client was rejected. The socket stays open until the client has read the answer.
    handshake: Option<Handshake>,
    since: Instant,
}

/// Result of reading from a client.
enum ReadResult {
    /// More bytes are needed.
    Incomplete,
    Peer(Box<Session>),
    /// Rejected for this reason.
    Rejected(String),
    /// It was rejected earlier, and closed the connection.
    Closed,
}

/// Listens at an address and waits for the peer: [`Listener::bind`] and [`Listener::accept`] in one.
pub fn listen<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    address: SocketAddr,
    secret: &Secret,
    conditions: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    Listener::bind(address, secret)?.accept(conditions, note)
}

/// True for the errors of a kernel without IPv6.
fn lacks_ipv6(error: &std::io::Error) -> bool {
    let errors = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL];
    Errno::from_io_error(error).is_some_and(|error| errors.contains(&error))
}

impl Listener {
    /// Listens at this address, and no other; port 0 is a port that is free. Without a secret the address must be the
    /// machine's own loopback. On a machine without IPv6 `[::]` is `0.0.0.0`.
    pub fn bind(address: SocketAddr, secret: &Secret) -> Result<Self, Error> {
        if is_exposed(address.ip(), secret) {
            return Err(Error::Exposed { address });
        }
        let failed = |error: std::io::Error| Error::Listen { address, why: error.to_string() };
        let socket = match TcpListener::bind(address) {
            Err(error)
                if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && lacks_ipv6(&error) =>
            {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
            }
            bound => bound,
        };
        let socket = socket.map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address, secret: secret.clone() })
    }

    /// The listening address, with the assigned port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the peer and rejects all other clients. The port is closed when this returns.
    pub fn accept<'a, M: Serialize + DeserializeOwned + Send + 'static>(
        self,
        conditions: &Conditions<'a>,
        note: &mut dyn FnMut(String),
    ) -> Result<Link<'a, M>, Error> {
        let begun = Instant::now();
        let mut peer = None;
        let rejected = self.serve(conditions, note, &mut |link| {
            peer = Some(link);
            false
        })?;
        peer.ok_or_else(|| Error::NoClient {
            address: self.address,
            waited: begun.elapsed(),
            rejected: rejected.describe(),
        })
    }

    /// Takes every peer that proves the secret, until the deadline or until `take` returns false.
    pub fn accept_each<'a, M: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        conditions: &Conditions<'a>,
        note: &mut dyn FnMut(String),
        take: &mut dyn FnMut(Link<'a, M>) -> bool,
    ) -> Result<(), Error> {
        self.serve(conditions, note, take).map(drop)
    }

    fn serve<'a, M: Serialize + DeserializeOwned + Send + 'static>(
        &self,
        conditions: &Conditions<'a>,
        note: &mut dyn FnMut(String),
        take: &mut dyn FnMut(Link<'a, M>) -> bool,
    ) -> Result<Rejected, Error> {
        let mut pending: Vec<Pending> = Vec::with_capacity(MAX_PENDING);
        let mut rejected = Rejected::default();
        loop {
            if (conditions.interrupted)() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= conditions.until {
                return Ok(rejected);
            }
            self.wait(&pending);
            self.admit(&mut pending, &mut rejected)?;
            let mut at = 0;
            while at < pending.len() {
                match pending[at].read() {
                    ReadResult::Incomplete => at += 1,
                    ReadResult::Closed => drop(pending.remove(at)),
                    ReadResult::Rejected(why) => rejected.add(pending[at].address, why),
                    ReadResult::Peer(session) => {
                        let Pending { stream, address, .. } = pending.remove(at);
                        if !take(Link::new(stream, address, *session, conditions)?) {
                            return Ok(rejected);
                        }
                    }
                }
            }
            rejected.report(note);
        }
    }

    /// Accepts new clients. Where all places are taken, each takes the place of an earlier one.
    fn admit(&self, pending: &mut Vec<Pending>, rejected: &mut Rejected) -> Result<(), Error> {
        for _ in 0..MAX_PENDING {
            let (stream, address) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !again(&error) {
                        // Most likely no descriptor is left: retrying at once would spin.
                        std::thread::sleep(POLL_INTERVAL);
                    }
                    return Ok(());
                }
            };
            if pending.len() >= MAX_PENDING {
                let gone = pending.remove(choose_evicted(pending));
                if gone.handshake.is_some() {
                    rejected.add(
                        gone.address,
                        "other clients took its place before it proved the secret".to_owned(),
                    );
                }
            }
            let handshake =
                Handshake::server(&self.secret.key()).map_err(|error| Error::System {
                    what: "cannot check a client's secret".to_owned(),
                    why: error.to_string(),
                })?;
            if stream.set_nonblocking(true).is_ok() {
                // A connection that delays small messages is slower, and no worse.
                let _ = stream.set_nodelay(true);
                pending.push(Pending {
                    stream,
                    address,
                    handshake: Some(handshake),
                    since: Instant::now(),
                });
            }
        }
        Ok(())
    }

    /// Waits a little for a new client, or for bytes of one that is pending.
    fn wait(&self, pending: &[Pending]) {
        let mut waiting: Vec<PollFd<'_>> = pending
            .iter()
            .map(|pending| PollFd::from_borrowed_fd(pending.stream.as_fd(), PollFlags::IN))
            .collect();
        waiting.push(PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN));
        any_ready(&mut waiting, POLL_INTERVAL);
    }
}

/// The client whose place a new one takes: one that was rejected, else one that has sent nothing, else one of the address with
/// the most places, the oldest first. So one machine that opens many connections loses its own places only.
fn choose_evicted(pending: &[Pending]) -> usize {
    let count_from = |ip: IpAddr| pending.iter().filter(|other| other.address.ip() == ip).count();
    let rank = |pending: &Pending| {
        let has_begun = pending.handshake.as_ref().is_some_and(Handshake::has_begun);
        (
            pending.handshake.is_none(),
            !has_begun,
            count_from(pending.address.ip()),
            pending.since.elapsed(),
        )
    };
    let ranks = pending.iter().map(rank).enumerate();
    ranks.max_by_key(|(_, rank)| *rank).map_or(0, |(at, _)| at)
}

impl Pending {
    /// Reads what the client has sent: from one that may be the peer, no byte beyond the next message of the handshake.
    fn read(&mut self) -> ReadResult {
        let late = self.since.elapsed() >= PROOF_TIMEOUT;
        let Some(handshake) = &mut self.handshake else {
            return match (&self.stream).read(&mut [0; 512]) {
                Ok(1..) if !late => ReadResult::Incomplete,
                Err(error) if again(&error) && !late => ReadResult::Incomplete,
                _ => ReadResult::Closed,
            };
        };
        match (&self.stream).read(handshake.room()) {
            Ok(0) => self.reject("it closed the connection before it proved the secret".to_owned()),
            Ok(count) => match handshake.received(count) {
                Next::Wait if late => self.reject(LATE.to_owned()),
                Next::Wait => ReadResult::Incomplete,
                Next::Send(bytes) => {
                    if self.send(&bytes) {
                        ReadResult::Incomplete
                    } else {
                        self.reject(UNSENT.to_owned())
                    }
                }
                Next::Done(bytes, session) => {
                    if bytes.is_none_or(|bytes| self.send(&bytes)) {
                        ReadResult::Peer(session)
                    } else {
                        self.reject(UNSENT.to_owned())
                    }
                }
                Next::Rejected(rejection) => {
                    let why = describe(rejection, handshake.begun());
                    self.reject(why)
                }
            },
            Err(error) if again(&error) && late => self.reject(LATE.to_owned()),
            Err(error) if again(&error) => ReadResult::Incomplete,
            Err(_) => self.reject("its connection failed".to_owned()),
        }
    }

    /// Sends the answer that all rejected clients get.
    fn reject(&mut self, why: String) -> ReadResult {
        self.handshake = None;
        // The client may have closed the connection already.
        let _ = self.send(&rejection_message(PROTOCOL));
        let _ = self.stream.shutdown(Shutdown::Write);
        ReadResult::Rejected(why)
    }

    /// Sends a few bytes, for which the buffer of a new connection has room.
    fn send(&self, bytes: &[u8]) -> bool {
        matches!((&self.stream).write(bytes), Ok(count) if count == bytes.len())
    }
}

const LATE: &str = "it did not prove the secret in time";
const UNSENT: &str = "the reply to it failed";

/// Why a client is rejected. The text contains no byte that the client sent.
fn describe(rejection: Rejection, begun: &[u8]) -> String {
    match rejection {
        Rejection::Foreign | Rejection::Refused => match protocol_of(begun) {
            Some(name) => format!("it is not gdr, but {name}"),
            None => "it is not gdr".to_owned(),
        },
        Rejection::Protocol(theirs) => format!(
            "it uses rendezvous protocol {theirs}, and this gdr uses {PROTOCOL}: use the same version of gdr on both machines"
        ),
        Rejection::Secret => "its secret differs".to_owned(),
    }
}

/// Rejected clients: the first is reported at once, later ones together, at most once in [`REPORT_INTERVAL`].
#[derive(Default)]
struct Rejected {
    count: u64,
    reported: u64,
    last: Option<(SocketAddr, String)>,
    at: Option<Instant>,
}

impl Rejected {
    fn add(&mut self, address: SocketAddr, why: String) {
        self.count += 1;
        self.last = Some((address, why));
    }

    fn report(&mut self, note: &mut dyn FnMut(String)) {
        let is_time = self.at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL);
        let (Some((address, why)), true) = (&self.last, self.count > self.reported && is_time)
        else {
            return;
        };
        note(match self.count - self.reported {
            1 => format!("still listening; rejected {address}: {why}"),
            more => format!(
                "still listening; rejected {more} connections, the last from {address}: {why}"
            ),
        });
        self.reported = self.count;
        self.at = Some(Instant::now());
    }

    /// Text that follows "no client connected".
    fn describe(&self) -> String {
        match (self.count, &self.last) {
            (1, Some((address, why))) => format!(" (rejected {address}: {why})"),
            (count, Some((address, why))) => {
                format!(" (rejected {count} clients, the last {address}: {why})")
            }
            (_, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of clients, in the order in which they lose their place.
    #[test]
    fn evicts_rejected_then_silent_then_crowding_then_old_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let listening = listener.local_addr().expect("an address");
        let started = Instant::now();
        let pending = |ip: &str, handshake: Option<Handshake>, order: u64| Pending {
            stream: TcpStream::connect(listening).expect("a connection"),
            address: SocketAddr::new(ip.parse().expect("an address"), 1),
            handshake,
            since: started + Duration::from_millis(order),
        };
        let silent = || Handshake::server(&Secret::none().key()).expect("a handshake");
        let begun = || {
            let mut handshake = silent();
            handshake.received(1);
            assert!(handshake.has_begun());
            Some(handshake)
        };
        let mut all = vec![
            pending("192.0.2.1", begun(), 0),
            pending("192.0.2.2", begun(), 1),
            pending("192.0.2.2", begun(), 2),
            pending("192.0.2.3", Some(silent()), 3),
            pending("192.0.2.4", None, 4),
        ];
        std::thread::sleep(Duration::from_millis(5));
        let mut evicted = Vec::new();
        while !all.is_empty() {
            let gone = all.remove(choose_evicted(&all));
            evicted.push(gone.since.duration_since(started).as_millis());
        }
        assert_eq!(evicted, [4, 3, 1, 0, 2]);
    }
}
