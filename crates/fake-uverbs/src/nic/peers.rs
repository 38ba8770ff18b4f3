//! Ports of other processes' NICs. `FAKE_UVERBS_PEERS` names a directory in which each process listens at a socket named by its LID, the
//! lowest free one. A connection carries frames: a length of four bytes, and that many bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::device::FIRST_LID;

/// Frames longer than this end their connection: the longest message and its header.
const LONGEST: usize = (1 << 30) + 256;

/// The LID of the InfiniBand port.
pub fn lid() -> u16 {
    claim().as_ref().map_or(FIRST_LID, |claim| claim.lid)
}

/// True if ports of other processes answer.
pub fn are_reached() -> bool {
    claim().is_some()
}

/// The LID that this process has taken, and its socket until the NIC takes it.
struct Claim {
    lid: u16,
    directory: PathBuf,
    listener: Mutex<Option<UnixListener>>,
}

fn claim() -> &'static Option<Claim> {
    static CLAIM: OnceLock<Option<Claim>> = OnceLock::new();
    CLAIM.get_or_init(|| {
        let directory = PathBuf::from(std::env::var_os("FAKE_UVERBS_PEERS")?);
        // Two processes that both found a LID's process ended would both take it.
        let Some(_locked) = lock(&directory) else {
            crate::log("FAKE_UVERBS_PEERS: the directory cannot be locked");
            return None;
        };
        for lid in FIRST_LID..FIRST_LID + 256 {
            let path = directory.join(format!("{lid:04x}"));
            // The socket of a process that has ended.
            if path.exists() && UnixStream::connect(&path).is_err() {
                let _ = std::fs::remove_file(&path);
            }
            if let Ok(listener) = UnixListener::bind(&path) {
                listener.set_nonblocking(true).ok()?;
                let listener = Mutex::new(Some(listener));
                return Some(Claim { lid, directory, listener });
            }
        }
        crate::log("FAKE_UVERBS_PEERS: no LID is free");
        None
    })
}

/// Locks a directory until the file is dropped.
fn lock(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    loop {
        match file.lock() {
            Ok(()) => return Some(file),
            // A signal of the host.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// The connections of this NIC.
pub struct Peers {
    lid: u16,
    directory: PathBuf,
    listener: UnixListener,
    /// To other NICs, by LID: requests there, answers back.
    to: BTreeMap<u16, Connection>,
    /// From other NICs: requests here, answers back.
    from: Vec<Connection>,
}

/// A connection, and the frames under way.
pub struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    is_open: bool,
}

/// The end of a connection at which a frame arrived.
#[derive(Debug, Clone, Copy)]
pub enum Arrived {
    /// An answer, on an outgoing connection.
    Answer,
    /// A request, on an incoming connection.
    At(usize),
}

impl Peers {
    /// None if the NICs of other processes are not reached.
    pub fn open() -> Option<Self> {
        let claim = claim().as_ref()?;
        let mut listener = claim.listener.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self {
            lid: claim.lid,
            directory: claim.directory.clone(),
            listener: listener.take()?,
            to: BTreeMap::new(),
            from: Vec::new(),
        })
    }

    /// True if another process has this LID, or had it when its connection was made.
    pub fn reaches(&mut self, lid: u16) -> bool {
        if self.to.get(&lid).is_some_and(|known| known.is_open) {
            return true;
        }
        if lid == self.lid {
            return false;
        }
        let path = self.directory.join(format!("{lid:04x}"));
        let opened = UnixStream::connect(path).ok().and_then(Connection::new);
        opened.is_some_and(|connection| {
            self.to.insert(lid, connection);
            true
        })
    }

    /// Sends a frame to another NIC; false if it is gone.
    pub fn send(&mut self, lid: u16, frame: &[u8]) -> bool {
        self.reaches(lid) && self.to.get_mut(&lid).is_some_and(|to| to.send(frame))
    }

    /// Answers on the connection of a request.
    pub fn answer(&mut self, to: usize, frame: &[u8]) {
        if let Some(connection) = self.from.get_mut(to) {
            connection.send(frame);
        }
    }

    /// True if the connection to a NIC has not ended.
    pub fn is_connected(&self, lid: u16) -> bool {
        self.to.get(&lid).is_some_and(|known| known.is_open)
    }

    /// Accepts connections, sends what waits, and takes the frames that have arrived.
    pub fn take(&mut self) -> Vec<(Arrived, Vec<u8>)> {
        while let Ok((stream, _)) = self.listener.accept() {
            self.from.extend(Connection::new(stream));
        }
        let mut frames = Vec::new();
        for connection in self.to.values_mut() {
            frames.extend(connection.take().map(|frame| (Arrived::Answer, frame)));
        }
        for (at, connection) in self.from.iter_mut().enumerate() {
            frames.extend(connection.take().map(|frame| (Arrived::At(at), frame)));
        }
        frames
    }
}

impl Connection {
    fn new(stream: UnixStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, received: Vec::new(), unsent: Vec::new(), is_open: true })
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.unsent.extend(length.to_le_bytes());
        self.unsent.extend(frame);
        self.flush();
        self.is_open
    }

    fn flush(&mut self) {
        let mut sent = 0;
        while self.is_open && sent < self.unsent.len() {
            match self.stream.write(&self.unsent[sent..]) {
                Ok(more) if more > 0 => sent += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => self.is_open = false,
            }
        }
        self.unsent.drain(..sent);
    }

    /// Sends what waits, and takes whole frames.
    fn take(&mut self) -> impl Iterator<Item = Vec<u8>> + use<> {
        self.flush();
        let mut buffer = [0; 1 << 16];
        while self.is_open {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.is_open = false,
                Ok(more) => self.received.extend(&buffer[..more]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.is_open = false,
            }
        }
        let mut frames = Vec::new();
        let mut start = 0;
        while let Some((length, rest)) = self.received[start..].split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > LONGEST {
                self.is_open = false;
                break;
            }
            let Some(frame) = rest.get(..length) else {
                break;
            };
            frames.push(frame.to_vec());
            start += 4 + length;
        }
        self.received.drain(..start);
        frames.into_iter()
    }
}
