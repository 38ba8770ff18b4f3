//! What goes between two HCAs: requests one way and their answers the other. The border of a process may run here: [`super::socket`].

use std::fmt::Debug;

use crate::hca::Endpoint;
use crate::hca::inbox::Inbox;
use crate::wire::RemoteAddress;

/// A way to another HCA's port. What is delivered arrives once and in order, or the way is gone for good.
pub trait Link: Debug + Send + Sync {
    /// Delivers a message, without waiting for the remote side.
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
    /// Who sends it.
    pub from: Endpoint,
    /// Whom it is for.
    pub to: Endpoint,
    /// The request's number; its answer has the same.
    pub sequence: u64,
    /// A request or an answer.
    pub body: Body,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A request.
    Request(RemoteOperation),
    /// The answer to one.
    Answer(Answer),
}

/// What is asked of the remote side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteOperation {
    /// A message for what is posted there.
    Send {
        /// The message.
        bytes: Vec<u8>,
        /// Immediate data.
        immediate: Option<u32>,
        /// It is to raise an event.
        solicited: bool,
    },
    /// Bytes for memory there.
    Write {
        /// Where.
        remote: RemoteAddress,
        /// The bytes.
        bytes: Vec<u8>,
        /// Immediate data, which takes a receive entry.
        immediate: Option<u32>,
        /// It is to raise an event.
        solicited: bool,
    },
    /// Bytes of memory there.
    Read {
        /// Where.
        remote: RemoteAddress,
        /// How many.
        length: u64,
    },
    /// 8 bytes there are replaced if they are equal.
    CompareSwap {
        /// Where.
        remote: RemoteAddress,
        /// Equal to this.
        compare: u64,
        /// Replaced by this.
        swap: u64,
    },
    /// 8 bytes there are added to.
    FetchAdd {
        /// Where.
        remote: RemoteAddress,
        /// What is added.
        add: u64,
    },
}

/// What the remote side answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Done; with what was read, if that was asked.
    Done(Vec<u8>),
    /// Nothing is posted to receive into.
    NotReady,
    /// No.
    Refused(RemoteError),
    /// There is no such queue pair, or none connected to the sender.
    Nobody,
}

/// Why the remote side refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteError {
    /// Not a request it does: too long for what was posted, or an atomic operation at no multiple of 8.
    Invalid,
    /// Memory that is not registered for this.
    Access,
    /// What was posted could not be used.
    Operation,
}

impl Link for Inbox<Message> {
    fn deliver(&self, message: Message) -> Result<(), Gone> {
        match self.put(message) {
            true => Ok(()),
            false => Err(Gone),
        }
    }
}
