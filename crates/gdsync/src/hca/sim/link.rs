//! What goes between two HCAs: requests one way and their answers the other. The border of a process may run here: [`super::socket`].

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::hca::Endpoint;
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

/// Messages that have arrived, and the bell of the thread that takes them.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    inner: Mutex<Inner>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    messages: VecDeque<Message>,
    awake: bool,
    closed: bool,
}

impl Inbox {
    /// What has arrived; `None` once it was closed.
    pub(super) fn take(&self) -> Option<VecDeque<Message>> {
        let mut inner = self.lock();
        (!inner.closed).then(|| std::mem::take(&mut inner.messages))
    }

    pub(super) fn rest(&self) -> VecDeque<Message> {
        std::mem::take(&mut self.lock().messages)
    }

    /// Sleeps until something arrives or happens, at most so long.
    pub(super) fn sleep(&self, most: Duration) {
        let inner = self.lock();
        let idle = |inner: &mut Inner| !inner.awake && !inner.closed && inner.messages.is_empty();
        let slept = self.rung.wait_timeout_while(inner, most, idle);
        let (mut inner, _) = slept.unwrap_or_else(PoisonError::into_inner);
        inner.awake = false;
    }

    pub(super) fn wake(&self) {
        self.lock().awake = true;
        self.rung.notify_all();
    }

    /// Nothing more is taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.rung.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for Inbox {
    fn deliver(&self, message: Message) -> Result<(), Gone> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Gone);
        }
        inner.messages.push_back(message);
        self.rung.notify_all();
        Ok(())
    }
}
