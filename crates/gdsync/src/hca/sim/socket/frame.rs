//! Encoding of messages: a head of 64 bytes, then the payload.
//!
//! Numbers are big-endian. Unused fields are zero, so that each message has one encoding.
//!
//! | bytes | what |
//! |------:|------|
//! | 0 | kind: 1 send, 2 write, 3 read, 4 compare and swap, 5 fetch and add, 6 datagram; 16 done, 17 not ready, 18 refused, 19 not connected |
//! | 1 | send, write, datagram: bit 0 immediate data, bit 1 solicited |
//! | 2 | refused: 1 invalid, 2 access, 3 operation |
//! | 3 | zero |
//! | 4–7 | source QPN, 24 bits |
//! | 8–11 | destination QPN, 24 bits |
//! | 12–15 | immediate data |
//! | 16–23 | number of the request, also in its answer; without a meaning in a datagram |
//! | 24–31 | write, read, atomics: remote address |
//! | 32–35 | its rkey; datagram: the Q_Key |
//! | 36 | datagram: the service level, 4 bits |
//! | 37–39 | zero |
//! | 40–47 | read: length in bytes, at most 2^30; atomics: value to compare or add |
//! | 48–55 | compare and swap: the new value |
//! | 56–63 | length of the payload of send, write, done and datagram in bytes, at most 2^30; a datagram's at most 4096 |

use std::io::{self, Read, Write};

use super::error::Error;
use crate::hca::Endpoint;
use crate::hca::sim::link::{
    Answer, Body, LONGEST_DATAGRAM, Message, RemoteError, RemoteOperation,
};
use crate::hca::sim::region::LONGEST;
use crate::wire::RemoteAddress;

/// Bytes of a head.
pub const HEAD: usize = 64;

const SEND: u8 = 1;
const WRITE: u8 = 2;
const READ: u8 = 3;
const COMPARE_SWAP: u8 = 4;
const FETCH_ADD: u8 = 5;
const DATAGRAM: u8 = 6;
const DONE: u8 = 16;
const NOT_READY: u8 = 17;
const REFUSED: u8 = 18;
const NOT_CONNECTED: u8 = 19;

const IMMEDIATE: u8 = 1;
const SOLICITED: u8 = 2;

const LEVEL: u8 = 0xf;

const QPN_BITS: u32 = 24;
/// Payload is read in chunks of this size, so memory is allocated only for received bytes.
const CHUNK: u64 = 1 << 20;
/// A payload up to this size is written together with its head.
const TOGETHER: usize = 16 << 10;

/// A malformed head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid byte {at} ({found:#04x}): {what}")]
pub struct MalformedHead {
    /// Offset of the first invalid byte.
    pub at: usize,
    /// That byte.
    pub found: u8,
    /// What is wrong.
    pub what: &'static str,
}

/// The LIDs of the two ports of a link. Messages do not contain them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// LID of the reader.
    pub local: u16,
    /// LID of the writer.
    pub peer: u16,
}

/// A decoded head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The message without its payload.
    pub message: Message,
    /// Length of the payload in bytes.
    pub length: u64,
}

/// Encodes the head of a message.
#[must_use]
pub fn encode(message: &Message) -> [u8; HEAD] {
    encode_head(message, payload(message).len() as u64)
}

/// The payload of a message.
pub(super) fn payload(message: &Message) -> &[u8] {
    match &message.body {
        Body::Request(
            RemoteOperation::Send { bytes, .. } | RemoteOperation::Write { bytes, .. },
        )
        | Body::Answer(Answer::Done(bytes))
        | Body::Datagram { bytes, .. } => bytes,
        _ => &[],
    }
}

/// The fields that depend on the kind of a message.
struct Fields {
    /// Kind, marks, error.
    first: [u8; 3],
    immediate: Option<u32>,
    place: Option<RemoteAddress>,
    level: u8,
    operands: [u64; 2],
}

fn fields(body: &Body) -> Fields {
    let marks = |immediate: Option<u32>, solicited: bool| {
        (if immediate.is_some() { IMMEDIATE } else { 0 }) | if solicited { SOLICITED } else { 0 }
    };
    let (mut first, mut immediate_data, mut place, mut operands) = ([0; 3], None, None, [0_u64; 2]);
    let mut kind = |kind: u8, marks: u8, error: u8| first = [kind, marks, error];
    let mut level = 0;
    match body {
        Body::Request(operation) => match *operation {
            RemoteOperation::Send { immediate, solicited, .. } => {
                kind(SEND, marks(immediate, solicited), 0);
                immediate_data = immediate;
            }
            RemoteOperation::Write { remote, immediate, solicited, .. } => {
                kind(WRITE, marks(immediate, solicited), 0);
                (immediate_data, place) = (immediate, Some(remote));
            }
            RemoteOperation::Read { remote, length } => {
                kind(READ, 0, 0);
                (place, operands) = (Some(remote), [length, 0]);
            }
            RemoteOperation::CompareSwap { remote, compare, swap } => {
                kind(COMPARE_SWAP, 0, 0);
                (place, operands) = (Some(remote), [compare, swap]);
            }
            RemoteOperation::FetchAdd { remote, add } => {
                kind(FETCH_ADD, 0, 0);
                (place, operands) = (Some(remote), [add, 0]);
            }
        },
        Body::Datagram { key, level: service_level, immediate, solicited, .. } => {
            kind(DATAGRAM, marks(*immediate, *solicited), 0);
            let remote = RemoteAddress { address: 0, key: *key };
            (immediate_data, place) = (*immediate, Some(remote));
            level = service_level & LEVEL;
        }
        Body::Answer(answer) => match answer {
            Answer::Done(_) => kind(DONE, 0, 0),
            Answer::NotReady => kind(NOT_READY, 0, 0),
            Answer::Refused(error) => kind(REFUSED, 0, error_number(*error)),
            Answer::NotConnected => kind(NOT_CONNECTED, 0, 0),
        },
    }
    Fields { first, immediate: immediate_data, place, level, operands }
}

fn encode_head(message: &Message, length: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(to) = head.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    };
    let fields = fields(&message.body);
    put(0, &fields.first);
    put(4, &message.from.qpn.to_be_bytes());
    put(8, &message.to.qpn.to_be_bytes());
    put(12, &fields.immediate.unwrap_or(0).to_be_bytes());
    put(16, &message.sequence.to_be_bytes());
    if let Some(RemoteAddress { address, key }) = fields.place {
        put(24, &address.to_be_bytes());
        put(32, &key.to_be_bytes());
    }
    put(36, &[fields.level]);
    put(40, &fields.operands[0].to_be_bytes());
    put(48, &fields.operands[1].to_be_bytes());
    put(56, &length.to_be_bytes());
    head
}

fn error_number(error: RemoteError) -> u8 {
    match error {
        RemoteError::Invalid => 1,
        RemoteError::Access => 2,
        RemoteError::Operation => 3,
    }
}

fn wrong(head: &[u8; HEAD], at: usize, what: &'static str) -> MalformedHead {
    let found = head.get(at).copied().unwrap_or_default();
    MalformedHead { at, found, what }
}

fn four(head: &[u8; HEAD], at: usize) -> u32 {
    let bytes = head.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn eight(head: &[u8; HEAD], at: usize) -> u64 {
    u64::from(four(head, at)) << 32 | u64::from(four(head, at + 4))
}

/// Decodes the body, without its payload.
fn body(head: &[u8; HEAD]) -> Result<Body, MalformedHead> {
    let remote = RemoteAddress { address: eight(head, 24), key: four(head, 32) };
    let immediate = (head[1] & IMMEDIATE != 0).then(|| four(head, 12));
    let solicited = head[1] & SOLICITED != 0;
    let bytes = Vec::new();
    let operand = eight(head, 40);
    Ok(match head[0] {
        SEND => Body::Request(RemoteOperation::Send { bytes, immediate, solicited }),
        WRITE => Body::Request(RemoteOperation::Write { remote, bytes, immediate, solicited }),
        READ if operand > LONGEST => {
            return Err(wrong(head, 40, "a read is at most 2^30 bytes"));
        }
        READ => Body::Request(RemoteOperation::Read { remote, length: operand }),
        COMPARE_SWAP => Body::Request(RemoteOperation::CompareSwap {
            remote,
            compare: operand,
            swap: eight(head, 48),
        }),
        FETCH_ADD => Body::Request(RemoteOperation::FetchAdd { remote, add: operand }),
        DATAGRAM => {
            Body::Datagram { key: remote.key, level: head[36], bytes, immediate, solicited }
        }
        DONE => Body::Answer(Answer::Done(bytes)),
        NOT_READY => Body::Answer(Answer::NotReady),
        REFUSED => Body::Answer(Answer::Refused(match head[2] {
            1 => RemoteError::Invalid,
            2 => RemoteError::Access,
            3 => RemoteError::Operation,
            _ => return Err(wrong(head, 2, "unknown error")),
        })),
        NOT_CONNECTED => Body::Answer(Answer::NotConnected),
        _ => return Err(wrong(head, 0, "unknown kind of message")),
    })
}

impl Head {
    /// Decodes a head sent by `ports.peer`.
    pub(super) fn decode(head: &[u8; HEAD], ports: Ports) -> Result<Self, MalformedHead> {
        let length = eight(head, 56);
        if length > LONGEST {
            return Err(wrong(head, 56, "a payload is at most 2^30 bytes"));
        }
        let body = body(head)?;
        if head[0] == DATAGRAM && length > LONGEST_DATAGRAM {
            return Err(wrong(head, 56, "a datagram is at most 4096 bytes"));
        }
        let has_payload = matches!(head[0], SEND | WRITE | DATAGRAM | DONE);
        if length > 0 && !has_payload {
            return Err(wrong(head, 56, "a message of this kind has no payload"));
        }
        let qpn = |at: usize| match four(head, at) {
            qpn if qpn >> QPN_BITS == 0 => Ok(qpn),
            _ => Err(wrong(head, at, "a QPN has 24 bits")),
        };
        let message = Message {
            from: Endpoint::new(ports.peer, qpn(4)?),
            to: Endpoint::new(ports.local, qpn(8)?),
            sequence: eight(head, 16),
            body,
        };
        let again = encode_head(&message, length);
        let mut pairs = again.iter().zip(head);
        match pairs.position(|(again, found)| again != found) {
            None => Ok(Self { message, length }),
            Some(at) => {
                let what = "the field is reserved in this message but not zero";
                Err(wrong(head, at, what))
            }
        }
    }

    /// The message with its payload.
    pub(super) fn with(self, payload: Vec<u8>) -> Message {
        let mut message = self.message;
        if let Body::Request(
            RemoteOperation::Send { bytes, .. } | RemoteOperation::Write { bytes, .. },
        )
        | Body::Answer(Answer::Done(bytes))
        | Body::Datagram { bytes, .. } = &mut message.body
        {
            *bytes = payload;
        }
        message
    }
}

/// The bytes of a short message.
pub(super) fn short(message: &Message) -> Option<Vec<u8>> {
    let bytes = payload(message);
    (bytes.len() <= TOGETHER).then(|| [&encode(message), bytes].concat())
}

/// Writes a message, of which the first `written` bytes are written already; calls `moved` after each chunk.
pub(super) fn write(
    to: &mut impl Write,
    message: &Message,
    written: usize,
    mut moved: impl FnMut(),
) -> io::Result<()> {
    if let Some(bytes) = short(message) {
        return to.write_all(bytes.get(written..).unwrap_or_default());
    }
    to.write_all(&encode(message))?;
    for chunk in payload(message).chunks(CHUNK as usize) {
        to.write_all(chunk)?;
        moved();
    }
    Ok(())
}

/// Reads the messages of a remote HCA after its hello.
#[derive(Debug)]
pub struct Messages<R> {
    stream: R,
    ports: Ports,
    /// Offset of the current message.
    pub(super) offset: u64,
}

impl<R: Read> Messages<R> {
    /// Reads from a stream positioned after the hello.
    pub fn new(stream: R, ports: Ports) -> Self {
        let offset = 0;
        Self { stream, ports, offset }
    }

    /// The next message; `None` at the end of the stream.
    ///
    /// # Errors
    ///
    /// [`Error::Message`], [`Error::Truncated`], [`Error::Io`]. The stream is unusable afterwards.
    pub fn message(&mut self) -> Result<Option<Message>, Error> {
        let Some(head) = self.head()? else {
            return Ok(None);
        };
        let bytes = self.payload(head.length, || {})?;
        Ok(Some(head.with(bytes)))
    }

    /// The next head. Read its payload before the next one.
    pub(super) fn head(&mut self) -> Result<Option<Head>, Error> {
        let mut head = [0; HEAD];
        let mut count = 0;
        while let Some(room) = head.get_mut(count..).filter(|room| !room.is_empty()) {
            match self.stream.read(room) {
                Ok(0) if count == 0 => return Ok(None),
                Ok(0) => return Err(self.truncated((HEAD - count) as u64)),
                Ok(read) => count += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A process killed with unread bytes resets the connection; no message is cut.
                Err(error) if count == 0 && error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(None);
                }
                Err(error) => return Err(self.failed(error, (HEAD - count) as u64)),
            }
        }
        let decoded = Head::decode(&head, self.ports)
            .map_err(|source| Error::Message { offset: self.offset, source })?;
        Ok(Some(decoded))
    }

    /// Reads the payload of the last head; calls `moved` after each chunk.
    pub(super) fn payload(
        &mut self,
        length: u64,
        mut moved: impl FnMut(),
    ) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut left = length;
        while left > 0 {
            let chunk = left.min(CHUNK);
            let before = bytes.len();
            let read = self.stream.by_ref().take(chunk).read_to_end(&mut bytes);
            let received = (bytes.len() - before) as u64;
            left -= received;
            match read {
                Ok(_) if received < chunk => return Err(self.truncated(left)),
                Ok(_) => moved(),
                Err(error) => return Err(self.failed(error, left)),
            }
        }
        self.offset += HEAD as u64 + length;
        Ok(bytes)
    }

    fn truncated(&self, missing: u64) -> Error {
        Error::Truncated { offset: self.offset, missing }
    }

    fn failed(&self, error: io::Error, missing: u64) -> Error {
        match error.kind() {
            io::ErrorKind::ConnectionReset => self.truncated(missing),
            _ => Error::io("read from the socket between two HCAs")(error),
        }
    }
}
