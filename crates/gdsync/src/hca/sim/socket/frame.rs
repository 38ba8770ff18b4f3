//! Messages as bytes: a head of 64 bytes, and the bytes that a message brings, if it brings any.
//!
//! Numbers are big-endian. What a message has no use for is zero, so that each has one form.
//!
//! | bytes | what |
//! |------:|------|
//! | 0 | kind: 1 send, 2 write, 3 read, 4 compare and swap, 5 fetch and add; 16 done, 17 not ready, 18 refused, 19 nobody |
//! | 1 | of send and write: bit 0 immediate data, bit 1 solicited |
//! | 2 | of refused: 1 invalid, 2 access, 3 operation |
//! | 3 | zero |
//! | 4–7 | number of the queue pair that sends it, 24 bits |
//! | 8–11 | number of the queue pair it is for, 24 bits |
//! | 12–15 | immediate data |
//! | 16–23 | number of the request; its answer has the same |
//! | 24–31 | of write, read and atomic operations: address at the remote side |
//! | 32–35 | and its key |
//! | 36–39 | zero |
//! | 40–47 | of read: how many bytes, at most 2^30; of atomic operations: what is compared or added |
//! | 48–55 | of compare and swap: what replaces it |
//! | 56–63 | how many bytes follow: of send, write and done, at most 2^30 |

use std::io::{self, Read, Write};

use super::error::Error;
use crate::hca::Endpoint;
use crate::hca::sim::link::{Answer, Body, Message, RemoteError, RemoteOperation};
use crate::hca::sim::region::LONGEST;
use crate::wire::RemoteAddress;

/// Bytes of a head.
pub const HEAD: usize = 64;

const SEND: u8 = 1;
const WRITE: u8 = 2;
const READ: u8 = 3;
const COMPARE_SWAP: u8 = 4;
const FETCH_ADD: u8 = 5;
const DONE: u8 = 16;
const NOT_READY: u8 = 17;
const REFUSED: u8 = 18;
const NOBODY: u8 = 19;

const IMMEDIATE: u8 = 1;
const SOLICITED: u8 = 2;

const QPN_BITS: u32 = 24;
/// So much of a message's bytes is taken at once: memory is taken for what has come, whatever the head says will.
const PIECE: u64 = 1 << 20;
/// A message of so many bytes goes with its head.
const TOGETHER: usize = 16 << 10;

/// Why a head is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its byte {at} ({found:#04x}) is wrong: {what}")]
pub struct NotAMessage {
    /// The first byte of what is wrong, from 0.
    pub at: usize,
    /// That byte.
    pub found: u8,
    /// What is wrong.
    pub what: &'static str,
}

/// The LIDs of the two ports of a link: no message says them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// Who reads.
    pub local: u16,
    /// Who wrote.
    pub peer: u16,
}

/// What is known of a message by its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The message, without the bytes that it brings.
    pub message: Message,
    /// How many.
    pub length: u64,
}

/// The head of a message.
#[must_use]
pub fn encode(message: &Message) -> [u8; HEAD] {
    encoded(message, brought(message).len() as u64)
}

/// The bytes that a message brings.
pub(super) fn brought(message: &Message) -> &[u8] {
    match &message.body {
        Body::Request(
            RemoteOperation::Send { bytes, .. } | RemoteOperation::Write { bytes, .. },
        )
        | Body::Answer(Answer::Done(bytes)) => bytes,
        _ => &[],
    }
}

fn encoded(message: &Message, length: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(to) = head.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    };
    let marks = |immediate: Option<u32>, solicited: bool| {
        (if immediate.is_some() { IMMEDIATE } else { 0 }) | if solicited { SOLICITED } else { 0 }
    };
    let mut kind = |kind: u8, marks: u8, refusal: u8| put(0, &[kind, marks, refusal]);
    let (mut immediate_data, mut place, mut operands) = (None, None, [0_u64; 2]);
    match &message.body {
        Body::Request(operation) => match *operation {
            RemoteOperation::Send {
                immediate,
                solicited,
                ..
            } => {
                kind(SEND, marks(immediate, solicited), 0);
                immediate_data = immediate;
            }
            RemoteOperation::Write {
                remote,
                immediate,
                solicited,
                ..
            } => {
                kind(WRITE, marks(immediate, solicited), 0);
                (immediate_data, place) = (immediate, Some(remote));
            }
            RemoteOperation::Read { remote, length } => {
                kind(READ, 0, 0);
                (place, operands) = (Some(remote), [length, 0]);
            }
            RemoteOperation::CompareSwap {
                remote,
                compare,
                swap,
            } => {
                kind(COMPARE_SWAP, 0, 0);
                (place, operands) = (Some(remote), [compare, swap]);
            }
            RemoteOperation::FetchAdd { remote, add } => {
                kind(FETCH_ADD, 0, 0);
                (place, operands) = (Some(remote), [add, 0]);
            }
        },
        Body::Answer(answer) => match answer {
            Answer::Done(_) => kind(DONE, 0, 0),
            Answer::NotReady => kind(NOT_READY, 0, 0),
            Answer::Refused(refusal) => kind(REFUSED, 0, refusal_number(*refusal)),
            Answer::Nobody => kind(NOBODY, 0, 0),
        },
    }
    put(4, &message.from.qpn.to_be_bytes());
    put(8, &message.to.qpn.to_be_bytes());
    put(12, &immediate_data.unwrap_or(0).to_be_bytes());
    put(16, &message.sequence.to_be_bytes());
    if let Some(RemoteAddress { address, key }) = place {
        put(24, &address.to_be_bytes());
        put(32, &key.to_be_bytes());
    }
    put(40, &operands[0].to_be_bytes());
    put(48, &operands[1].to_be_bytes());
    put(56, &length.to_be_bytes());
    head
}

fn refusal_number(refusal: RemoteError) -> u8 {
    match refusal {
        RemoteError::Invalid => 1,
        RemoteError::Access => 2,
        RemoteError::Operation => 3,
    }
}

fn wrong(head: &[u8; HEAD], at: usize, what: &'static str) -> NotAMessage {
    let found = head.get(at).copied().unwrap_or_default();
    NotAMessage { at, found, what }
}

fn four(head: &[u8; HEAD], at: usize) -> u32 {
    let bytes = head.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn eight(head: &[u8; HEAD], at: usize) -> u64 {
    u64::from(four(head, at)) << 32 | u64::from(four(head, at + 4))
}

/// What a head says, without the bytes that follow it.
fn body(head: &[u8; HEAD]) -> Result<Body, NotAMessage> {
    let remote = RemoteAddress {
        address: eight(head, 24),
        key: four(head, 32),
    };
    let immediate = (head[1] & IMMEDIATE != 0).then(|| four(head, 12));
    let solicited = head[1] & SOLICITED != 0;
    let bytes = Vec::new();
    let operand = eight(head, 40);
    Ok(match head[0] {
        SEND => Body::Request(RemoteOperation::Send {
            bytes,
            immediate,
            solicited,
        }),
        WRITE => Body::Request(RemoteOperation::Write {
            remote,
            bytes,
            immediate,
            solicited,
        }),
        READ if operand > LONGEST => {
            return Err(wrong(head, 40, "at most 2^30 bytes are read at once"));
        }
        READ => Body::Request(RemoteOperation::Read {
            remote,
            length: operand,
        }),
        COMPARE_SWAP => Body::Request(RemoteOperation::CompareSwap {
            remote,
            compare: operand,
            swap: eight(head, 48),
        }),
        FETCH_ADD => Body::Request(RemoteOperation::FetchAdd {
            remote,
            add: operand,
        }),
        DONE => Body::Answer(Answer::Done(bytes)),
        NOT_READY => Body::Answer(Answer::NotReady),
        REFUSED => Body::Answer(Answer::Refused(match head[2] {
            1 => RemoteError::Invalid,
            2 => RemoteError::Access,
            3 => RemoteError::Operation,
            _ => return Err(wrong(head, 2, "there is no such refusal")),
        })),
        NOBODY => Body::Answer(Answer::Nobody),
        _ => return Err(wrong(head, 0, "there is no such message")),
    })
}

impl Head {
    /// Reads a head, which came from `ports.far`.
    pub(super) fn decode(head: &[u8; HEAD], ports: Ports) -> Result<Self, NotAMessage> {
        let length = eight(head, 56);
        if length > LONGEST {
            return Err(wrong(head, 56, "a message brings at most 2^30 bytes"));
        }
        let body = body(head)?;
        let brings = matches!(head[0], SEND | WRITE | DONE);
        if length > 0 && !brings {
            return Err(wrong(head, 56, "a message of this kind brings no bytes"));
        }
        let qpn = |at: usize| match four(head, at) {
            qpn if qpn >> QPN_BITS == 0 => Ok(qpn),
            _ => Err(wrong(head, at, "a queue pair's number has 24 bits")),
        };
        let message = Message {
            from: Endpoint::new(ports.peer, qpn(4)?),
            to: Endpoint::new(ports.local, qpn(8)?),
            sequence: eight(head, 16),
            body,
        };
        let again = encoded(&message, length);
        let mut pairs = again.iter().zip(head);
        match pairs.position(|(again, found)| again != found) {
            None => Ok(Self { message, length }),
            Some(at) => {
                let what = "the field is reserved in this message and not zero";
                Err(wrong(head, at, what))
            }
        }
    }

    /// The message with what it brings.
    pub(super) fn with(self, brought: Vec<u8>) -> Message {
        let mut message = self.message;
        if let Body::Request(
            RemoteOperation::Send { bytes, .. } | RemoteOperation::Write { bytes, .. },
        )
        | Body::Answer(Answer::Done(bytes)) = &mut message.body
        {
            *bytes = brought;
        }
        message
    }
}

/// Writes a message; `moved` hears of each piece that was taken.
pub(super) fn write(
    to: &mut impl Write,
    message: &Message,
    mut moved: impl FnMut(),
) -> io::Result<()> {
    let (head, bytes) = (encode(message), brought(message));
    if bytes.len() <= TOGETHER {
        return to.write_all(&[&head, bytes].concat());
    }
    to.write_all(&head)?;
    for piece in bytes.chunks(PIECE as usize) {
        to.write_all(piece)?;
        moved();
    }
    Ok(())
}

/// What a far HCA sends after its hello, message by message.
#[derive(Debug)]
pub struct Messages<R> {
    stream: R,
    ports: Ports,
    /// Where the message that is being read begins.
    pub(super) offset: u64,
}

impl<R: Read> Messages<R> {
    /// Of a stream that stands right after the hello.
    pub fn new(stream: R, ports: Ports) -> Self {
        let offset = 0;
        Self {
            stream,
            ports,
            offset,
        }
    }

    /// The next message; `None` where the stream ends before one.
    ///
    /// # Errors
    ///
    /// [`Error::Message`], [`Error::Torn`], [`Error::Io`]: the stream is of no use after that.
    pub fn message(&mut self) -> Result<Option<Message>, Error> {
        let Some(head) = self.head()? else {
            return Ok(None);
        };
        let bytes = self.brought(head.length, || {})?;
        Ok(Some(head.with(bytes)))
    }

    /// The next head. What it brings must be read before the next one.
    pub(super) fn head(&mut self) -> Result<Option<Head>, Error> {
        let mut head = [0; HEAD];
        let mut some = 0;
        while let Some(room) = head.get_mut(some..).filter(|room| !room.is_empty()) {
            match self.stream.read(room) {
                Ok(0) if some == 0 => return Ok(None),
                Ok(0) => return Err(self.torn((HEAD - some) as u64)),
                Ok(count) => some += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A process that is killed with bytes unread resets the connection: nothing of a message is lost.
                Err(error) if some == 0 && error.kind() == io::ErrorKind::ConnectionReset => {
                    return Ok(None);
                }
                Err(error) => return Err(self.failed(error, (HEAD - some) as u64)),
            }
        }
        let decoded = Head::decode(&head, self.ports).map_err(|source| Error::Message {
            offset: self.offset,
            source,
        })?;
        Ok(Some(decoded))
    }

    /// The bytes that the last head announced; `moved` hears of each piece.
    pub(super) fn brought(
        &mut self,
        length: u64,
        mut moved: impl FnMut(),
    ) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut left = length;
        while left > 0 {
            let piece = left.min(PIECE);
            let before = bytes.len();
            let read = self.stream.by_ref().take(piece).read_to_end(&mut bytes);
            let came = (bytes.len() - before) as u64;
            left -= came;
            match read {
                Ok(_) if came < piece => return Err(self.torn(left)),
                Ok(_) => moved(),
                Err(error) => return Err(self.failed(error, left)),
            }
        }
        self.offset += HEAD as u64 + length;
        Ok(bytes)
    }

    fn torn(&self, missing: u64) -> Error {
        Error::Torn {
            offset: self.offset,
            missing,
        }
    }

    fn failed(&self, error: io::Error, missing: u64) -> Error {
        match error.kind() {
            io::ErrorKind::ConnectionReset => self.torn(missing),
            _ => Error::io("read from the socket between two HCAs")(error),
        }
    }
}
