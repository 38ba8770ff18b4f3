//! Messages between two HCAs: requests, answers, and datagrams, which have none. [`super::socket`] carries them between processes.

use std::fmt::Debug;

use crate::hca::Endpoint;
use crate::hca::inbox::Inbox;
use crate::wire::RemoteAddress;

/// A link to another HCA's port. It delivers each message once and in order, until it fails for good. It may lose datagrams.
pub trait Link: Debug + Send + Sync {
    /// Delivers a message without waiting for the remote side.
    ///
    /// # Errors
    ///
    /// [`Gone`].
    fn deliver(&self, message: Message) -> Result<(), Gone>;
}

/// The remote side is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the remote side is gone")]
pub struct Gone;

/// A message between two queue pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The source.
    pub from: Endpoint,
    /// The destination.
    pub to: Endpoint,
    /// Number of the request, also in its answer; without a meaning in a datagram.
    pub sequence: u64,
    /// What it carries.
    pub body: Body,
}

/// A request, an answer or a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A request.
    Request(RemoteOperation),
    /// An answer.
    Answer(Answer),
    /// A datagram for a posted receive.
    Datagram {
        /// The Q_Key.
        key: u32,
        /// The service level.
        level: u8,
        /// The message.
        bytes: Vec<u8>,
        /// Immediate data.
        immediate: Option<u32>,
        /// Raise an event.
        solicited: bool,
    },
}

/// Longest datagram in bytes: the largest MTU.
pub const LONGEST_DATAGRAM: u64 = 4096;

/// A request to the remote side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteOperation {
    /// A message for a posted receive.
    Send {
        /// The message.
        bytes: Vec<u8>,
        /// Immediate data.
        immediate: Option<u32>,
        /// Raise an event.
        solicited: bool,
    },
    /// RDMA write.
    Write {
        /// The destination.
        remote: RemoteAddress,
        /// The bytes.
        bytes: Vec<u8>,
        /// Immediate data, which consumes a receive WQE.
        immediate: Option<u32>,
        /// Raise an event.
        solicited: bool,
    },
    /// RDMA read.
    Read {
        /// The source.
        remote: RemoteAddress,
        /// Length in bytes.
        length: u64,
    },
    /// Compare and swap of 8 bytes.
    CompareSwap {
        /// The address.
        remote: RemoteAddress,
        /// The expected value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// Fetch and add of 8 bytes.
    FetchAdd {
        /// The address.
        remote: RemoteAddress,
        /// The summand.
        add: u64,
    },
}

/// The remote side's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Success, with the data of a read or atomic.
    Done(Vec<u8>),
    /// No receive is posted.
    NotReady,
    /// The request failed.
    Refused(RemoteError),
    /// The queue pair does not exist or is not connected to the sender.
    NotConnected,
}

/// Why a request failed at the remote side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteError {
    /// Invalid request: too long for the receive, or an unaligned atomic.
    Invalid,
    /// Unregistered memory or missing access right.
    Access,
    /// The receive WQE is malformed.
    Operation,
}

impl Link for Inbox<Message> {
    fn deliver(&self, message: Message) -> Result<(), Gone> {
        if self.put(message) { Ok(()) } else { Err(Gone) }
    }
}
