//! Ranks that meet at a TCP address, where rank 0 listens. The others prove that they know the secret, and rank 0 proves it to them; what
//! follows is not encrypted, as with MPI.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{Bootstrap, Error, MAX_BYTES, Pause, check, names};

/// First bytes of a connection; the last one is the version.
const MAGIC: [u8; 8] = *b"gdr-mp\0\x01";
const NONCE: usize = 32;
const PROOF: usize = 32;
/// Bytes of a hello: magic, rank, size, nonce.
const HELLO: usize = 8 + 4 + 4 + NONCE;
/// Timeout of each read and write while a connection is made.
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

    fn proof(&self, who: &str, parts: [&[u8]; 2]) -> Hmac<Sha256> {
        // A key of any length is valid.
        let mut code = Hmac::<Sha256>::new_from_slice(&self.0)
            .unwrap_or_else(|_| Hmac::new(&Default::default()));
        code.update(who.as_bytes());
        for part in parts {
            code.update(part);
        }
        code
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
    /// Rank 0: the streams of the ranks from 1. Others: that of rank 0.
    streams: Vec<TcpStream>,
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
        let streams = match rank {
            0 => accept(&addresses, size, secret, &pause)?,
            rank => vec![connect(&addresses, rank, size, secret, &pause)?],
        };
        Ok(Self { rank, size, streams, failed: false })
    }

    /// The rank at the other end of a stream.
    fn other(&self, position: usize) -> u32 {
        if self.rank == 0 { position as u32 + 1 } else { 0 }
    }

    fn exchange(&mut self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let pause = Pause::new(timeout);
        let mut all = vec![bytes.to_vec()];
        if self.rank == 0 {
            let mut room = MAX_BYTES;
            for (position, stream) in self.streams.iter().enumerate() {
                all.push(receive(stream, self.other(position), &mut room, &pause)?);
            }
            let joined: Vec<u8> = all.iter().flat_map(|part| frame(part)).collect();
            for (position, stream) in self.streams.iter().enumerate() {
                send(stream, self.other(position), &frame(&joined), &pause)?;
            }
            return Ok(all);
        }
        let Some(stream) = self.streams.first() else {
            return Err(Error::Failed);
        };
        send(stream, 0, &frame(bytes), &pause)?;
        let joined = receive(stream, 0, &mut (2 * MAX_BYTES), &pause)?;
        split(&joined, self.size)
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
fn frame(bytes: &[u8]) -> Vec<u8> {
    // `MAX_BYTES` fits.
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

fn send(mut stream: &TcpStream, rank: u32, bytes: &[u8], pause: &Pause) -> Result<(), Error> {
    if bytes.len() > 2 * MAX_BYTES {
        return Err(Error::value("length of an exchange", "too many bytes"));
    }
    limit(stream, pause.left())
        .and_then(|()| stream.write_all(bytes))
        .map_err(|error| ended(error, rank, pause))
}

fn receive(
    stream: &TcpStream,
    rank: u32,
    room: &mut usize,
    pause: &Pause,
) -> Result<Vec<u8>, Error> {
    let read = |bytes: &mut [u8]| {
        read_exact(stream, bytes, pause).map_err(|error| ended(error, rank, pause))
    };
    let mut length = [0; 4];
    read(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    *room = room
        .checked_sub(length)
        .ok_or(Error::Malformed { who: names([rank].into_iter()), what: "too many bytes" })?;
    let mut bytes = Vec::new();
    // Memory is allocated for what arrives, not for what is announced.
    while bytes.len() < length {
        let start = bytes.len();
        bytes.resize(length.min(start + (64 << 10)), 0);
        read(bytes.get_mut(start..).unwrap_or_default())?;
    }
    Ok(bytes)
}

/// Reads all bytes before the deadline, whatever the pace of the sender.
fn read_exact(mut stream: &TcpStream, mut bytes: &mut [u8], pause: &Pause) -> io::Result<()> {
    while !bytes.is_empty() {
        limit(stream, pause.left())?;
        match stream.read(bytes)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => bytes = bytes.get_mut(count..).unwrap_or_default(),
        }
    }
    Ok(())
}

fn limit(stream: &TcpStream, left: Duration) -> io::Result<()> {
    // Zero would mean no limit.
    let left = Some(left.max(Duration::from_millis(1)));
    stream.set_read_timeout(left)?;
    stream.set_write_timeout(left)
}

fn ended(error: io::Error, rank: u32, pause: &Pause) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Error::TimedOut { who: names([rank].into_iter()), timeout: pause.timeout }
        }
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            Error::Gone { rank }
        }
        _ => Error::io(format!("exchange bytes with rank {rank}"))(error),
    }
}

fn nonce() -> Result<[u8; NONCE], Error> {
    let mut bytes = [0; NONCE];
    let filled = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    match filled {
        Ok(NONCE) => Ok(bytes),
        Ok(_) => Err(Error::io("get random bytes")(ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(Error::io("get random bytes")(error.into())),
    }
}

/// Accepts the ranks from 1. Connections that prove nothing are closed.
fn accept(
    addresses: &[SocketAddr],
    size: u32,
    secret: &Secret,
    pause: &Pause,
) -> Result<Vec<TcpStream>, Error> {
    let listen = || Error::io(format!("listen at {addresses:?}"));
    let listener = TcpListener::bind(addresses).map_err(listen())?;
    listener.set_nonblocking(true).map_err(listen())?;
    let mut streams: Vec<Option<TcpStream>> = (1..size).map(|_| None).collect();
    while streams.iter().any(Option::is_none) {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Ok(Some(rank)) = greet(&stream, size, secret)
                    && let Some(slot @ None) = streams.get_mut(rank as usize - 1)
                {
                    *slot = Some(stream);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !pause.pause() {
                    let missing = (1..).zip(&streams).filter(|(_, stream)| stream.is_none());
                    let who = names(missing.map(|(rank, _)| rank));
                    let timeout = pause.timeout;
                    return Err(Error::TimedOut { who, timeout });
                }
            }
            Err(error) => return Err(listen()(error)),
        }
    }
    Ok(streams.into_iter().flatten().collect())
}

/// Rank 0's part of a handshake: the other's rank, if it proves the secret.
fn greet(mut stream: &TcpStream, size: u32, secret: &Secret) -> Result<Option<u32>, Error> {
    let failed = || Error::io("accept a rank");
    let pause = Pause::new(HANDSHAKE);
    stream.set_nonblocking(false).map_err(failed())?;
    stream.set_nodelay(true).map_err(failed())?;
    let mut hello = [0; HELLO];
    read_exact(stream, &mut hello, &pause).map_err(failed())?;
    let own = nonce()?;
    stream.write_all(&own).map_err(failed())?;
    let mut proof = [0; PROOF];
    read_exact(stream, &mut proof, &pause).map_err(failed())?;
    let proves = secret.proof("rank", [&hello, &own]).verify_slice(&proof);
    let number = |at: usize| {
        let bytes = hello.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    };
    let (rank, theirs) = (number(8), number(12));
    let is_one = hello.starts_with(&MAGIC) && theirs == size && (1..size).contains(&rank);
    if proves.is_err() || !is_one {
        return Ok(None);
    }
    let answer = secret.proof("hub", [&own, &hello]).finalize().into_bytes();
    stream.write_all(&answer).map_err(failed())?;
    Ok(Some(rank))
}

/// Connects to rank 0, which may not listen yet.
fn connect(
    addresses: &[SocketAddr],
    rank: u32,
    size: u32,
    secret: &Secret,
    pause: &Pause,
) -> Result<TcpStream, Error> {
    let mut hello = [0; HELLO];
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..12].copy_from_slice(&rank.to_be_bytes());
    hello[12..16].copy_from_slice(&size.to_be_bytes());
    let mut last = None;
    loop {
        for address in addresses {
            hello[16..].copy_from_slice(&nonce()?);
            let each = pause.left().clamp(Duration::from_millis(1), HANDSHAKE);
            let stream = TcpStream::connect_timeout(address, each);
            match stream.and_then(|stream| introduce(stream, &hello, secret)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
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
fn introduce(mut stream: TcpStream, hello: &[u8], secret: &Secret) -> io::Result<TcpStream> {
    let pause = Pause::new(HANDSHAKE);
    stream.set_nodelay(true)?;
    stream.write_all(hello)?;
    let mut theirs = [0; NONCE];
    read_exact(&stream, &mut theirs, &pause)?;
    let proof = secret.proof("rank", [hello, &theirs]);
    stream.write_all(&proof.finalize().into_bytes())?;
    let mut answer = [0; PROOF];
    read_exact(&stream, &mut answer, &pause)?;
    match secret.proof("hub", [&theirs, hello]).verify_slice(&answer) {
        Ok(()) => Ok(stream),
        Err(_) => Err(io::Error::other("it did not prove that it knows the secret")),
    }
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
