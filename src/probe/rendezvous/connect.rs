//! The client: every address of the name is tried again and again until a server answers that knows the secret.

use std::io::Read as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use mp::session::{Handshake, Next, Rejection, Session};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditions::{Conditions, is_exposed};
use super::error::Error;
use super::link::Link;
use super::listen::PROOF_TIMEOUT;
use super::secret::Secret;
use super::socket::{again, readable, write_all};
use super::wire::quote;

/// Interval of checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long one address may take to answer at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A try with less time than this fails for lack of time: its error is not reported.
const SHORT_ATTEMPT: Duration = Duration::from_millis(500);
/// How long until it is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How long a server may take for the handshake: a little more than it gives a client.
const HANDSHAKE_TIMEOUT: Duration = PROOF_TIMEOUT.saturating_add(Duration::from_secs(1));
/// No more addresses of a name are tried than this.
const MAX_ADDRESSES: usize = 16;

/// Result of one try.
pub enum Attempt<L> {
    /// There is a link.
    Connected(L),
    /// Not yet, and why; a later try may do better.
    Retry(String),
    /// Failed for good.
    Failed(Error),
}

/// Connects to the server at this host and port, and tries until the deadline while nothing answers there.
/// The host is a name or an address, IPv6 with or without brackets, and with an interface (`fe80::1%2`) if it is link-local.
pub fn connect<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    host: &str,
    port: u16,
    secret: &Secret,
    conditions: &Conditions<'a>,
    note: &mut dyn FnMut(String),
) -> Result<Link<'a, M>, Error> {
    let begun = Instant::now();
    let mut why = String::new();
    loop {
        let last = conditions.until.saturating_duration_since(Instant::now()) < SHORT_ATTEMPT;
        match attempt(host, port, secret, conditions, conditions.until) {
            Attempt::Connected(link) => return Ok(link),
            Attempt::Failed(error) => return Err(error),
            // The error of the try before is better.
            Attempt::Retry(_) if last && !why.is_empty() => {}
            Attempt::Retry(reason) => {
                if why.is_empty() {
                    note(format!("waiting for gdr at {}: {reason}", at(host, port)));
                }
                why = reason;
            }
        }
        pause(RETRY_INTERVAL, conditions)?;
        if Instant::now() >= conditions.until {
            return Err(Error::NotReached { at: at(host, port), waited: begun.elapsed(), why });
        }
    }
}

/// A host and a port as one writes them.
fn at(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// An address that is written in digits, the number of its interface included. Names of interfaces are for the resolver.
fn literal(name: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(ip) = name.parse() {
        return Some(SocketAddr::new(ip, port));
    }
    format!("[{name}]:{port}").parse().ok()
}

/// Waits, unless interrupted.
pub fn pause(time: Duration, conditions: &Conditions<'_>) -> Result<(), Error> {
    let until = conditions.until.min(Instant::now() + time);
    while Instant::now() < until {
        if (conditions.interrupted)() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()).min(POLL_INTERVAL));
    }
    Ok(())
}

/// Tries each address of a host once; each within a few seconds.
pub fn attempt<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    host: &str,
    port: u16,
    secret: &Secret,
    conditions: &Conditions<'a>,
    until: Instant,
) -> Attempt<Link<'a, M>> {
    let addresses = match resolve(host, port, conditions, until) {
        Attempt::Connected(addresses) => addresses,
        Attempt::Retry(why) => return Attempt::Retry(why),
        Attempt::Failed(error) => return Attempt::Failed(error),
    };
    let mut whys = Vec::new();
    for address in &addresses {
        if (conditions.interrupted)() {
            return Attempt::Failed(Error::Interrupted);
        }
        match attempt_one(*address, secret, conditions, until) {
            Attempt::Retry(why) => {
                let why = if addresses.len() > 1 { format!("{address}: {why}") } else { why };
                whys.push(why);
            }
            other => return other,
        }
    }
    Attempt::Retry(whys.join("; "))
}

/// The addresses of a name. The resolver has no deadline, so it runs in a thread that is abandoned at the deadline.
fn resolve(
    host: &str,
    port: u16,
    conditions: &Conditions<'_>,
    until: Instant,
) -> Attempt<Vec<SocketAddr>> {
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Some(address) = literal(name, port) {
        return Attempt::Connected(vec![address]);
    }
    let never = |why: String| Attempt::Failed(Error::Resolve { host: host.to_owned(), why });
    let (sender, receiver) = channel();
    let query = name.to_owned();
    let thread = std::thread::Builder::new().spawn(move || {
        // Ignored: the caller may have given up.
        let _ = sender.send((query.as_str(), port).to_socket_addrs().map(Iterator::collect));
    });
    if let Err(error) = thread {
        return never(error.to_string());
    }
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(Ok(addresses)) => {
                let mut addresses: Vec<SocketAddr> = addresses;
                addresses.dedup();
                addresses.truncate(MAX_ADDRESSES);
                return if addresses.is_empty() {
                    never("the resolver returned no address".to_owned())
                } else {
                    Attempt::Connected(addresses)
                };
            }
            // The name servers may come back.
            Ok(Err(error))
                if error.to_string().contains("Temporary failure") && Instant::now() < until =>
            {
                return Attempt::Retry(format!("the name does not resolve yet ({error})"));
            }
            // A machine need not resolve its own name, and its processes meet by it.
            Ok(Err(_)) if is_this_machine(name) => {
                return Attempt::Connected(vec![
                    SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
                    SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
                ]);
            }
            Ok(Err(error)) => return never(error.to_string()),
            Err(RecvTimeoutError::Disconnected) => return never("the resolver failed".to_owned()),
            Err(RecvTimeoutError::Timeout) if (conditions.interrupted)() => {
                return Attempt::Failed(Error::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                return never("the resolver did not answer in time".to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn is_this_machine(name: &str) -> bool {
    std::fs::read_to_string("/proc/sys/kernel/hostname").is_ok_and(|own| own.trim_end() == name)
}

/// Tries one address once.
fn attempt_one<'a, M: Serialize + DeserializeOwned + Send + 'static>(
    address: SocketAddr,
    secret: &Secret,
    conditions: &Conditions<'a>,
    until: Instant,
) -> Attempt<Link<'a, M>> {
    if is_exposed(address.ip(), secret) {
        return Attempt::Failed(Error::Exposed { address });
    }
    let left = until.saturating_duration_since(Instant::now());
    // At the deadline it is still tried once.
    let stream = match TcpStream::connect_timeout(
        &address,
        left.clamp(Duration::from_millis(100), CONNECT_TIMEOUT),
    ) {
        Ok(stream) => stream,
        Err(error) => return Attempt::Retry(error.to_string()),
    };
    // A connection to a free port of this machine can find itself.
    if stream.local_addr().is_ok_and(|local| local == address) {
        return Attempt::Retry("no program listens there".to_owned());
    }
    if let Err(error) = stream.set_nonblocking(true) {
        return Attempt::Retry(error.to_string());
    }
    // A connection that delays small messages is slower, and no worse.
    let _ = stream.set_nodelay(true);
    let session = match prove(
        &stream,
        secret,
        address,
        conditions,
        until.min(Instant::now() + HANDSHAKE_TIMEOUT),
    ) {
        Attempt::Connected(session) => session,
        Attempt::Retry(why) => return Attempt::Retry(why),
        Attempt::Failed(error) => return Attempt::Failed(error),
    };
    match Link::new(stream, address, *session, conditions) {
        Ok(link) => Attempt::Connected(link),
        Err(error) => Attempt::Failed(error),
    }
}

/// Proves the secret to the server, and has it prove it.
fn prove(
    stream: &TcpStream,
    secret: &Secret,
    peer: SocketAddr,
    conditions: &Conditions<'_>,
    until: Instant,
) -> Attempt<Box<Session>> {
    let (mut handshake, first) = match Handshake::client(&secret.key()) {
        Ok(begun) => begun,
        Err(error) => {
            return Attempt::Failed(Error::System {
                what: "cannot create a proof of the secret".to_owned(),
                why: error.to_string(),
            });
        }
    };
    // Ignored: what the server sent before it closed is a better error.
    let send =
        |bytes: &[u8]| drop(write_all(stream, bytes, until, &|| !(conditions.interrupted)()));
    let foreign = |bytes: &[u8]| Attempt::Failed(Error::NotGdr { peer, quote: quote(bytes) });
    send(&first);
    loop {
        if (conditions.interrupted)() {
            return Attempt::Failed(Error::Interrupted);
        }
        let left = until.saturating_duration_since(Instant::now());
        if !readable(stream, left.min(POLL_INTERVAL)) {
            if left.is_zero() {
                return match handshake.begun() {
                    [] => Attempt::Retry(
                        "the program there accepted the connection, but sent nothing".to_owned(),
                    ),
                    bytes => foreign(bytes),
                };
            }
            continue;
        }
        let count = match (&mut &*stream).read(handshake.room()) {
            Ok(0) if handshake.begun().is_empty() => {
                return Attempt::Retry("the program there closed the connection".to_owned());
            }
            Ok(0) => return foreign(handshake.begun()),
            Ok(count) => count,
            Err(error) if again(&error) => continue,
            Err(error) if handshake.begun().is_empty() => {
                return Attempt::Retry(error.to_string());
            }
            Err(_) => return foreign(handshake.begun()),
        };
        match handshake.received(count) {
            Next::Wait => {}
            Next::Send(bytes) => send(&bytes),
            Next::Done(_, session) => return Attempt::Connected(session),
            Next::Rejected(rejection) => {
                return match rejection {
                    Rejection::Foreign => foreign(handshake.begun()),
                    Rejection::Protocol(theirs) => {
                        Attempt::Failed(Error::Protocol { peer, theirs })
                    }
                    Rejection::Secret => Attempt::Failed(Error::Impostor { peer }),
                    Rejection::Refused => Attempt::Failed(Error::Rejected { peer }),
                };
            }
        }
    }
}
