//! Ranks that meet at a TCP address, where rank 0 listens. The others prove that they know the secret, and rank 0 proves it to them
//! ([`session`](crate::session)). What follows nobody else can change; it is not encrypted, as with MPI.
//!
//! First a rank sends its number and the number of ranks, and rank 0 confirms them. Then each exchange is a message from every rank to rank 0,
//! and one back. A message is frames of full length, and a shorter one, maybe an empty one, that ends it.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::{Bootstrap, Error, MAX_BYTES, Pause, check, names};
use crate::session::{FrameError, Handshake, Key, LONGEST, Next, Session};

/// Version of the protocol. Any change needs a new number. gdr's probes count from 1.
const PROTOCOL: u32 = u32::from_be_bytes(*b"mp\0\x02");
/// Bytes of a hello: rank and number of ranks, big endian.
const HELLO: usize = 8;
/// How long a connection may take to be made.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// What the ranks prove to each other that they know.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Fewest characters.
    const LEAST: usize = 16;

    /// A text of at least 16 characters.
    ///
    /// # Errors
    ///
    /// [`Error::Value`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text.len() {
            Self::LEAST.. => Ok(Self(text.as_bytes().to_vec())),
            _ => Err(Error::value(
                "MP_SECRET",
                "it needs at least 16 characters, as openssl rand -hex 32 prints them",
            )),
        }
    }

    /// No secret, for loopback addresses: any local user can connect.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// True if there is no secret.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    fn key(&self) -> Key {
        Key::new(&self.0, PROTOCOL)
    }
}

/// Without the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "no secret" } else { "a secret" })
    }
}

/// A rank that meets the others at an address.
#[derive(Debug)]
pub struct Tcp {
    rank: u32,
    size: u32,
    /// Rank 0: those of the ranks from 1. Others: that of rank 0.
    connections: Vec<Connection>,
    failed: bool,
}

impl Tcp {
    /// Rank 0 listens at `address` (HOST:PORT) until all others have connected.
    ///
    /// # Errors
    ///
    /// [`Error::Value`], also without a secret for other than loopback addresses; [`Error::TimedOut`], [`Error::Io`].
    pub fn new(
        address: &str,
        rank: u32,
        size: u32,
        secret: &Secret,
        timeout: Duration,
    ) -> Result<Self, Error> {
        check(rank, size)?;
        let resolved = address.to_socket_addrs();
        let addresses: Vec<SocketAddr> =
            resolved.map_err(Error::io(format!("resolve {address}")))?.collect();
        if secret.is_none() && !addresses.iter().all(|address| address.ip().is_loopback()) {
            return Err(Error::value(
                format!("address {address} without a secret"),
                "set MP_SECRET to the same text for all ranks, or use a loopback address",
            ));
        }
        let pause = Pause::new(timeout);
        let connections = match rank {
            0 => accept(&addresses, size, secret, &pause)?,
            rank => vec![connect(&addresses, (rank, size), secret, &pause)?],
        };
        Ok(Self { rank, size, connections, failed: false })
    }

    fn exchange(&mut self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let pause = Pause::new(timeout);
        if bytes.len() > MAX_BYTES {
            return Err(Error::value("length of an exchange", "too many bytes"));
        }
        let mut all = vec![bytes.to_vec()];
        if self.rank == 0 {
            let mut room = MAX_BYTES;
            for (rank, connection) in (1..).zip(&mut self.connections) {
                let part = connection.receive(&mut room, &pause);
                all.push(part.map_err(|broken| broken.of(rank, &pause))?);
            }
            let joined: Vec<u8> = all.iter().flat_map(|part| with_length(part)).collect();
            for (rank, connection) in (1..).zip(&mut self.connections) {
                let sent = connection.send(&joined, &pause);
                sent.map_err(|error| Broken::Io(error).of(rank, &pause))?;
            }
            return Ok(all);
        }
        let Some(connection) = self.connections.first_mut() else {
            return Err(Error::Failed);
        };
        connection.send(bytes, &pause).map_err(|error| Broken::Io(error).of(0, &pause))?;
        let joined = connection.receive(&mut (2 * MAX_BYTES), &pause);
        split(&joined.map_err(|broken| broken.of(0, &pause))?, self.size)
    }
}

/// The parts of all ranks.
fn split(mut joined: &[u8], size: u32) -> Result<Vec<Vec<u8>>, Error> {
    let malformed = |what| Error::Malformed { who: names([0].into_iter()), what };
    let mut parts = Vec::new();
    while let Some((length, rest)) = joined.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let part = rest.split_at_checked(length);
        let (part, rest) = part.ok_or_else(|| malformed("a part is cut off"))?;
        parts.push(part.to_vec());
        joined = rest;
    }
    if joined.is_empty() && parts.len() == size as usize {
        Ok(parts)
    } else {
        Err(malformed("not one part for each rank"))
    }
}

/// Bytes with their length.
fn with_length(bytes: &[u8]) -> Vec<u8> {
    // `MAX_BYTES` fits.
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// A stream whose ends have proved the secret to each other.
struct Connection {
    stream: TcpStream,
    session: Box<Session>,
}

/// Without the keys.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

/// Why a message did not arrive.
enum Broken {
    Io(io::Error),
    Malformed(&'static str),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Broken {
    /// As an error of the rank at the other end.
    fn of(self, rank: u32, pause: &Pause) -> Error {
        match self {
            Self::Malformed(what) => Error::Malformed { who: names([rank].into_iter()), what },
            Self::Io(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    Error::TimedOut { who: names([rank].into_iter()), timeout: pause.timeout }
                }
                ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                    Error::Gone { rank }
                }
                _ => Error::io(format!("exchange bytes with rank {rank}"))(error),
            },
        }
    }
}

impl Connection {
    fn send(&mut self, bytes: &[u8], pause: &Pause) -> io::Result<()> {
        let full = bytes.chunks_exact(LONGEST);
        let last = full.remainder();
        for payload in full.chain([last]) {
            let frame = self.session.writer.frame(payload).ok_or(ErrorKind::InvalidInput)?;
            write(&self.stream, &frame, pause)?;
        }
        Ok(())
    }

    /// A message of at most `room` bytes, which it uses up.
    fn receive(&mut self, room: &mut usize, pause: &Pause) -> Result<Vec<u8>, Broken> {
        let mut message = Vec::new();
        let mut buffer = vec![0; LONGEST];
        loop {
            match self.session.reader.take() {
                Ok(Some(payload)) => {
                    *room = room
                        .checked_sub(payload.len())
                        .ok_or(Broken::Malformed("too many bytes"))?;
                    message.extend_from_slice(&payload);
                    if payload.len() < LONGEST {
                        return Ok(message);
                    }
                }
                Ok(None) => {
                    let count = read(&self.stream, &mut buffer, pause)?;
                    self.session.reader.feed(buffer.get(..count).unwrap_or_default());
                }
                Err(FrameError::TooLong) => return Err(Broken::Malformed("a frame is too long")),
                Err(FrameError::Forged) => {
                    return Err(Broken::Malformed("a frame was changed on its way"));
                }
            }
        }
    }
}

fn write(mut stream: &TcpStream, bytes: &[u8], pause: &Pause) -> io::Result<()> {
    limit(stream, pause.left())?;
    stream.write_all(bytes)
}

/// Reads what is there, at least one byte.
fn read(mut stream: &TcpStream, bytes: &mut [u8], pause: &Pause) -> io::Result<usize> {
    loop {
        limit(stream, pause.left())?;
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted && !pause.left().is_zero() => {}
            other => return other,
        }
    }
}

fn limit(stream: &TcpStream, left: Duration) -> io::Result<()> {
    // Zero would mean no limit.
    let left = Some(left.max(Duration::from_millis(1)));
    stream.set_read_timeout(left)?;
    stream.set_write_timeout(left)
}

/// Accepts the ranks from 1. Connections that prove nothing are closed.
fn accept(
    addresses: &[SocketAddr],
    size: u32,
    secret: &Secret,
    pause: &Pause,
) -> Result<Vec<Connection>, Error> {
    let listen = || Error::io(format!("listen at {addresses:?}"));
    let listener = TcpListener::bind(addresses).map_err(listen())?;
    listener.set_nonblocking(true).map_err(listen())?;
    let mut connections: Vec<Option<Connection>> = (1..size).map(|_| None).collect();
    while connections.iter().any(Option::is_none) {
        match listener.accept() {
            Ok((stream, _)) => {
                // Errors are those of a stranger, or of a rank that tries again.
                let _ = greet(stream, &mut connections, secret);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !pause.pause() {
                    let missing =
                        (1..).zip(&connections).filter(|(_, connection)| connection.is_none());
                    let who = names(missing.map(|(rank, _)| rank));
                    let timeout = pause.timeout;
                    return Err(Error::TimedOut { who, timeout });
                }
            }
            Err(error) => return Err(listen()(error)),
        }
    }
    Ok(connections.into_iter().flatten().collect())
}

/// Rank 0's part of a handshake: takes in a rank that proves the secret and is still missing.
fn greet(
    stream: TcpStream,
    connections: &mut [Option<Connection>],
    secret: &Secret,
) -> Result<(), Broken> {
    let pause = Pause::new(HANDSHAKE);
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let session = prove(&stream, &pause, Handshake::server(&secret.key())?)?;
    let mut connection = Connection { stream, session };
    let mut room = HELLO;
    let hello = connection.receive(&mut room, &pause)?;
    let (rank, size) = hello.split_at_checked(4).ok_or(Broken::Malformed("no hello"))?;
    let number =
        |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    let slot = number(rank).checked_sub(1).and_then(|position| connections.get(position));
    if size.len() == 4 && number(size) == connections.len() + 1 && matches!(slot, Some(None)) {
        connection.send(&[], &pause)?;
        if let Some(slot) = connections.get_mut(number(rank) - 1) {
            *slot = Some(connection);
        }
    }
    Ok(())
}

/// Answers until the other end has proved the secret.
fn prove(stream: &TcpStream, pause: &Pause, mut handshake: Handshake) -> io::Result<Box<Session>> {
    loop {
        let count = read(stream, handshake.room(), pause)?;
        match handshake.received(count) {
            Next::Wait => {}
            Next::Send(message) => write(stream, &message, pause)?,
            Next::Done(message, session) => {
                write(stream, message.as_ref().map_or(&[], |message| &message[..]), pause)?;
                return Ok(session);
            }
            Next::Rejected(_) => {
                return Err(io::Error::other("it did not prove that it knows the secret"));
            }
        }
    }
}

/// Connects to rank 0, which may not listen yet.
fn connect(
    addresses: &[SocketAddr],
    place: (u32, u32),
    secret: &Secret,
    pause: &Pause,
) -> Result<Connection, Error> {
    let mut last = None;
    loop {
        for address in addresses {
            let each = pause.left().clamp(Duration::from_millis(1), HANDSHAKE);
            let stream = TcpStream::connect_timeout(address, each).map_err(Broken::Io);
            match stream.and_then(|stream| introduce(stream, place, secret)) {
                Ok(connection) => return Ok(connection),
                Err(Broken::Io(error)) => last = Some(error),
                Err(Broken::Malformed(what)) => last = Some(io::Error::other(what)),
            }
        }
        if !pause.pause() {
            let error = last.unwrap_or_else(|| ErrorKind::TimedOut.into());
            return Err(Error::io(format!(
                "connect to rank 0 at {addresses:?} within {} ms (it must run, with the same number of ranks and the same secret)",
                pause.timeout.as_millis()
            ))(error));
        }
    }
}

/// Another rank's part of a handshake.
fn introduce(
    stream: TcpStream,
    (rank, size): (u32, u32),
    secret: &Secret,
) -> Result<Connection, Broken> {
    let pause = Pause::new(HANDSHAKE);
    stream.set_nodelay(true)?;
    let (handshake, first) = Handshake::client(&secret.key())?;
    write(&stream, &first, &pause)?;
    let session = prove(&stream, &pause, handshake)?;
    let mut connection = Connection { stream, session };
    connection.send(&[rank.to_be_bytes(), size.to_be_bytes()].concat(), &pause)?;
    // Empty: rank 0 misses this rank.
    connection.receive(&mut 0, &pause)?;
    Ok(connection)
}

impl Bootstrap for Tcp {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn all_gather(&mut self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        let exchanged = self.exchange(bytes, timeout);
        self.failed = exchanged.is_err();
        exchanged
    }
}
