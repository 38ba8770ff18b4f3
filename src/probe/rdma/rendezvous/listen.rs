//! The server: it waits for the one client that knows the secret, and says no to everybody else. What a client can have of it
//! before it has proved the secret is bounded: a few sockets, 40 bytes each, for two seconds.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Error;
use super::handshake::{Next, PROTOCOL, Rejection, ServerHandshake, Session, no};
use super::link::Link;
use super::secret::Secret;
use super::socket::{again, any_ready};
use super::wire::protocol_of;
use super::{Conditions, is_exposed};

/// How often a wait asks whether somebody wants to stop.
const SLICE: Duration = Duration::from_millis(50);
/// How long a client may take to prove the secret.
pub const PROOF: Duration = Duration::from_secs(2);
/// So many clients prove it at a time; where another comes, one of them goes.
const PENDING: usize = 16;
/// Rejected clients are reported no more often.
const REPORTS: Duration = Duration::from_secs(10);

/// A port that is listened on.
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
    /// None once it was told no: its end is waited for, so that it reads that.
    handshake: Option<ServerHandshake>,
    since: Instant,
}

/// What came of what a client sent.
enum Heard {
    /// Nothing yet.
    Waiting,
    /// It is the peer.
    Peer(Box<Session>),
    /// It is not, and why.
    Rejected(String),
    /// It is gone, and was rejected before.
    Gone,
}

/// Listens at an address and waits for the peer: [`Listener::bind`] and [`Listener::accept`] in one.
pub fn listen<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    address: SocketAddr,
    secret: &Secret,
    terms: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    Listener::bind(address, secret)?.accept(terms, note)
}

impl Listener {
    /// Listens at this address, and no other; port 0 is a port that is free. Without a secret the address must be the
    /// machine's own loopback.
    pub fn bind(address: SocketAddr, secret: &Secret) -> Result<Self, Error> {
        if is_exposed(address.ip(), secret) {
            return Err(Error::Exposed { address });
        }
        let failed = |error: std::io::Error| Error::Listen {
            address,
            why: error.to_string(),
        };
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self {
            socket,
            address,
            secret: secret.clone(),
        })
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the peer; who else comes is told no. Nobody is listened to any more once there is a peer.
    pub fn accept<'a, M: Serialize + DeserializeOwned + Send + 'static>(
        self,
        terms: &Conditions<'a>,
        note: &mut dyn FnMut(String),
    ) -> Result<Link<'a, M>, Error> {
        let begun = Instant::now();
        let mut pending: Vec<Pending> = Vec::with_capacity(PENDING);
        let mut rejected = Rejected::default();
        loop {
            if (terms.interrupted)() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= terms.until {
                return Err(Error::NobodyCame {
                    address: self.address,
                    waited: begun.elapsed(),
                    rejected: rejected.in_words(),
                });
            }
            self.wait(&pending);
            self.admit(&mut pending, &mut rejected)?;
            let mut at = 0;
            while at < pending.len() {
                match pending[at].hear() {
                    Heard::Waiting => at += 1,
                    Heard::Gone => drop(pending.remove(at)),
                    Heard::Rejected(why) => rejected.add(pending[at].address, why),
                    Heard::Peer(session) => {
                        let Pending { stream, address, .. } = pending.remove(at);
                        return Link::new(stream, address, *session, terms);
                    }
                }
            }
            rejected.report(note);
        }
    }

    /// Takes who has come, as many as there are places; where all are taken, one goes for each.
    fn admit(&self, pending: &mut Vec<Pending>, rejected: &mut Rejected) -> Result<(), Error> {
        for _ in 0..PENDING {
            let (stream, address) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) => {
                    if !again(&error) {
                        // No more descriptors, most likely: trying on at once helps nobody.
                        std::thread::sleep(SLICE);
                    }
                    return Ok(());
                }
            };
            if pending.len() >= PENDING {
                let gone = pending.remove(least_promising(pending));
                if gone.handshake.is_some() {
                    rejected.add(gone.address, "others came before it proved the secret".to_owned());
                }
            }
            let handshake = ServerHandshake::new(&self.secret).map_err(|error| Error::System {
                what: "a connection cannot be proved".to_owned(),
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

    /// Waits a little for somebody to come, or to say something.
    fn wait(&self, pending: &[Pending]) {
        let mut waiting: Vec<PollFd<'_>> = pending
            .iter()
            .map(|pending| PollFd::from_borrowed_fd(pending.stream.as_fd(), PollFlags::IN))
            .collect();
        waiting.push(PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN));
        any_ready(&mut waiting, SLICE);
    }
}

/// Who goes where another comes: who was told no, then who has said nothing, then who comes from the address that has most of
/// the places, the oldest first. So one machine that opens many connections takes places from itself alone.
fn least_promising(pending: &[Pending]) -> usize {
    let from = |ip: IpAddr| pending.iter().filter(|other| other.address.ip() == ip).count();
    let rank = |pending: &Pending| {
        let has_begun = pending.handshake.as_ref().is_some_and(ServerHandshake::has_begun);
        (
            pending.handshake.is_none(),
            !has_begun,
            from(pending.address.ip()),
            pending.since.elapsed(),
        )
    };
    let ranks = pending.iter().map(rank).enumerate();
    ranks.max_by_key(|(_, rank)| *rank).map_or(0, |(at, _)| at)
}

impl Pending {
    /// What it has said by now. No byte that is not the next of the handshake is read from one that may be the peer.
    fn hear(&mut self) -> Heard {
        let late = self.since.elapsed() >= PROOF;
        let Some(handshake) = &mut self.handshake else {
            return match (&self.stream).read(&mut [0; 512]) {
                Ok(1..) if !late => Heard::Waiting,
                Err(error) if again(&error) && !late => Heard::Waiting,
                _ => Heard::Gone,
            };
        };
        match (&self.stream).read(handshake.room()) {
            Ok(0) => self.reject("it left before it proved the secret".to_owned()),
            Ok(count) => match handshake.received(count) {
                Next::Wait if late => self.reject(LATE.to_owned()),
                Next::Wait => Heard::Waiting,
                Next::Send(bytes) => match self.send(&bytes) {
                    true => Heard::Waiting,
                    false => self.reject(UNSENT.to_owned()),
                },
                Next::Done(bytes, session) => match bytes.is_none_or(|bytes| self.send(&bytes)) {
                    true => Heard::Peer(session),
                    false => self.reject(UNSENT.to_owned()),
                },
                Next::Rejected(rejection) => {
                    let why = in_words(rejection, handshake.begun());
                    self.reject(why)
                }
            },
            Err(error) if again(&error) && late => self.reject(LATE.to_owned()),
            Err(error) if again(&error) => Heard::Waiting,
            Err(_) => self.reject("its connection broke".to_owned()),
        }
    }

    /// Tells it no, and nothing more.
    fn reject(&mut self, why: String) -> Heard {
        self.handshake = None;
        // It may be gone already.
        let _ = self.send(&no());
        let _ = self.stream.shutdown(Shutdown::Write);
        Heard::Rejected(why)
    }

    /// A few bytes, for which a new connection has room.
    fn send(&self, bytes: &[u8]) -> bool {
        matches!((&self.stream).write(bytes), Ok(count) if count == bytes.len())
    }
}

const LATE: &str = "it did not prove the secret in time";
const UNSENT: &str = "it takes no answer";

/// Why a client was told no. Of what it sent no byte is shown.
fn in_words(rejection: Rejection, begun: &[u8]) -> String {
    match rejection {
        Rejection::Foreign | Rejection::No => match protocol_of(begun) {
            Some(name) => format!("it is not gdr, but {name}"),
            None => "it is not gdr".to_owned(),
        },
        Rejection::Protocol(theirs) => format!(
            "it speaks protocol {theirs} of the rendezvous, and this gdr protocol {PROTOCOL}: use the same version of gdr on both machines"
        ),
        Rejection::Secret => "its secret is another one".to_owned(),
    }
}

/// Those who came and were told no: the first is reported at once, the others together, now and then.
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
        let is_time = self.at.is_none_or(|at| at.elapsed() >= REPORTS);
        let (Some((address, why)), true) = (&self.last, self.count > self.reported && is_time) else {
            return;
        };
        note(match self.count - self.reported {
            1 => format!("still listening; rejected {address}: {why}"),
            more => format!("still listening; rejected {more} connections, the last from {address}: {why}"),
        });
        self.reported = self.count;
        self.at = Some(Instant::now());
    }

    /// What goes after "nobody came".
    fn in_words(&self) -> String {
        match (self.count, &self.last) {
            (1, Some((address, why))) => format!(" but one that was rejected ({address}: {why})"),
            (count, Some((address, why))) => {
                format!(" but {count} that were rejected (the last {address}: {why})")
            }
            (_, None) => String::new(),
        }
    }
}
