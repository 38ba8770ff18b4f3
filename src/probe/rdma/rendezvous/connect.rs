//! The client: every address of the name is tried again and again until a server answers that knows the secret.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditions::{Conditions, is_exposed};
use super::error::Error;
use super::handshake::{ClientHandshake, Next, Rejection, Session};
use super::link::Link;
use super::listen::PROOF;
use super::secret::Secret;
use super::socket::{again, readable, write_all};
use super::wire::quote;

/// How often a wait asks whether somebody wants to stop.
const SLICE: Duration = Duration::from_millis(50);
/// How long one address may take to answer at all.
const ADDRESS: Duration = Duration::from_secs(2);
/// What is left of the time for a try that says nothing new.
const HURRIED: Duration = Duration::from_millis(500);
/// How long until it is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a server may take for the handshake: a little more than it gives a client.
const ANSWER: Duration = PROOF.saturating_add(Duration::from_secs(1));
/// No more addresses of a name are tried than this.
const ADDRESSES: usize = 16;

/// What came of one try.
pub enum Attempt<L> {
    /// There is a link.
    Linked(L),
    /// Not yet, and why; a later try may do better.
    NotYet(String),
    /// There will be none.
    Never(Error),
}

/// Connects to the server at this host and port, and tries until the deadline while nothing answers there.
/// The host is a name or an address, IPv6 with or without brackets.
pub fn connect<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    host: &str,
    port: u16,
    secret: &Secret,
    terms: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    let begun = Instant::now();
    let mut why = String::new();
    loop {
        let last = terms.until.saturating_duration_since(Instant::now()) < HURRIED;
        match attempt(host, port, secret, terms, terms.until) {
            Attempt::Linked(link) => return Ok(link),
            Attempt::Never(error) => return Err(error),
            // A try that had no time says less than the one before.
            Attempt::NotYet(_) if last && !why.is_empty() => {}
            Attempt::NotYet(said) => {
                if why.is_empty() {
                    note(format!("waiting for gdr at {}: {said}", at(host, port)));
                }
                why = said;
            }
        }
        pause(PAUSE, terms)?;
        if Instant::now() >= terms.until {
            return Err(Error::NotReached {
                at: at(host, port),
                waited: begun.elapsed(),
                why,
            });
        }
    }
}

/// A host and a port as one writes them.
fn at(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Waits, unless somebody wants to stop.
pub fn pause(time: Duration, terms: &Conditions<'_>) -> Result<(), Error> {
    let until = terms.until.min(Instant::now() + time);
    while Instant::now() < until {
        if (terms.interrupted)() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()).min(SLICE));
    }
    Ok(())
}

/// Tries each address of a host once; each within a few seconds.
pub fn attempt<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    host: &str,
    port: u16,
    secret: &Secret,
    terms: &Conditions<'a>,
    until: Instant,
) -> Attempt<Link<'a, M>> {
    let addresses = match resolve(host, port, terms, until) {
        Attempt::Linked(addresses) => addresses,
        Attempt::NotYet(why) => return Attempt::NotYet(why),
        Attempt::Never(error) => return Attempt::Never(error),
    };
    let mut whys = Vec::new();
    for address in &addresses {
        if (terms.interrupted)() {
            return Attempt::Never(Error::Interrupted);
        }
        match attempt_one(*address, secret, terms, until) {
            Attempt::NotYet(why) => {
                let why = if addresses.len() > 1 {
                    format!("{address}: {why}")
                } else {
                    why
                };
                whys.push(why);
            }
            other => return other,
        }
    }
    Attempt::NotYet(whys.join("; "))
}

/// The addresses of a name. The resolver has no deadline, so it is asked by a thread that nobody waits for longer.
fn resolve(
    host: &str,
    port: u16,
    terms: &Conditions<'_>,
    until: Instant,
) -> Attempt<Vec<SocketAddr>> {
    let name = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    if let Ok(ip) = name.parse() {
        return Attempt::Linked(vec![SocketAddr::new(ip, port)]);
    }
    let never = |why: String| {
        Attempt::Never(Error::Resolve {
            host: host.to_owned(),
            why,
        })
    };
    let (tell, told) = channel();
    let asked = name.to_owned();
    let thread = std::thread::Builder::new().spawn(move || {
        // Nobody may listen any more.
        let _ = tell.send(
            (asked.as_str(), port)
                .to_socket_addrs()
                .map(Iterator::collect),
        );
    });
    if let Err(error) = thread {
        return never(error.to_string());
    }
    loop {
        match told.recv_timeout(SLICE) {
            Ok(Ok(addresses)) => {
                let mut addresses: Vec<SocketAddr> = addresses;
                addresses.dedup();
                addresses.truncate(ADDRESSES);
                return match addresses.is_empty() {
                    true => never("the resolver returned no address".to_owned()),
                    false => Attempt::Linked(addresses),
                };
            }
            // The resolver's own servers may come back.
            Ok(Err(error))
                if error.to_string().contains("Temporary failure") && Instant::now() < until =>
            {
                return Attempt::NotYet(format!("the name does not resolve yet ({error})"));
            }
            Ok(Err(error)) => return never(error.to_string()),
            Err(RecvTimeoutError::Disconnected) => return never("the resolver failed".to_owned()),
            Err(RecvTimeoutError::Timeout) if (terms.interrupted)() => {
                return Attempt::Never(Error::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                return never("the resolver did not answer in time".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Tries one address once.
fn attempt_one<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    address: SocketAddr,
    secret: &Secret,
    terms: &Conditions<'a>,
    until: Instant,
) -> Attempt<Link<'a, M>> {
    if is_exposed(address.ip(), secret) {
        return Attempt::Never(Error::Exposed { address });
    }
    let left = until.saturating_duration_since(Instant::now());
    // At the deadline it is still tried once.
    let stream =
        match TcpStream::connect_timeout(&address, left.clamp(Duration::from_millis(100), ADDRESS))
        {
            Ok(stream) => stream,
            Err(error) => return Attempt::NotYet(error.to_string()),
        };
    // A connection to a free port of this machine can find itself.
    if stream.local_addr().is_ok_and(|local| local == address) {
        return Attempt::NotYet("no program listens there".to_owned());
    }
    if let Err(error) = stream.set_nonblocking(true) {
        return Attempt::NotYet(error.to_string());
    }
    // A connection that delays small messages is slower, and no worse.
    let _ = stream.set_nodelay(true);
    let session = match prove(
        &stream,
        secret,
        address,
        terms,
        until.min(Instant::now() + ANSWER),
    ) {
        Attempt::Linked(session) => session,
        Attempt::NotYet(why) => return Attempt::NotYet(why),
        Attempt::Never(error) => return Attempt::Never(error),
    };
    match Link::new(stream, address, *session, terms) {
        Ok(link) => Attempt::Linked(link),
        Err(error) => Attempt::Never(error),
    }
}

/// Proves the secret to the server, and has it prove it.
fn prove(
    stream: &TcpStream,
    secret: &Secret,
    peer: SocketAddr,
    terms: &Conditions<'_>,
    until: Instant,
) -> Attempt<Box<Session>> {
    let (mut handshake, first) = match ClientHandshake::new(secret) {
        Ok(begun) => begun,
        Err(error) => {
            return Attempt::Never(Error::System {
                what: "cannot create a proof of the secret".to_owned(),
                why: error.to_string(),
            });
        }
    };
    // What the other side sent before it closed says more than that this could not be written.
    let send = |bytes: &[u8]| drop(write_all(stream, bytes, until, &|| !(terms.interrupted)()));
    let foreign = |bytes: &[u8]| {
        Attempt::Never(Error::NotGdr {
            peer,
            quote: quote(bytes),
        })
    };
    send(&first);
    loop {
        if (terms.interrupted)() {
            return Attempt::Never(Error::Interrupted);
        }
        let left = until.saturating_duration_since(Instant::now());
        if !readable(stream, left.min(SLICE)) {
            if left.is_zero() {
                return match handshake.begun() {
                    [] => Attempt::NotYet(
                        "the program there accepted the connection, but sent nothing".to_owned(),
                    ),
                    some => foreign(some),
                };
            }
            continue;
        }
        let count = match (&mut &*stream).read(handshake.room()) {
            Ok(0) if handshake.begun().is_empty() => {
                return Attempt::NotYet("the program there closed the connection".to_owned());
            }
            Ok(0) => return foreign(handshake.begun()),
            Ok(count) => count,
            Err(error) if again(&error) => continue,
            Err(error) if handshake.begun().is_empty() => {
                return Attempt::NotYet(error.to_string());
            }
            Err(_) => return foreign(handshake.begun()),
        };
        match handshake.received(count) {
            Next::Wait => {}
            Next::Send(bytes) => send(&bytes),
            Next::Done(_, session) => return Attempt::Linked(session),
            Next::Rejected(rejection) => {
                return match rejection {
                    Rejection::Foreign => foreign(handshake.begun()),
                    Rejection::Protocol(theirs) => Attempt::Never(Error::Protocol { peer, theirs }),
                    Rejection::Secret => Attempt::Never(Error::Impostor { peer }),
                    Rejection::No => Attempt::Never(Error::Rejected { peer }),
                };
            }
        }
    }
}
