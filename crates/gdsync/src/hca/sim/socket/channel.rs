//! A link over a socket: messages to write, requests without an answer, and requests to answer.
//!
//! Memory is bounded. Each queue pair has one request in progress. If more than [`Options::room`] bytes wait to be written, a
//! further request is answered with [`Answer::NotReady`], so it is retried. Unanswered requests of the remote side hold at most
//! [`OWED`] bytes or are one request: until they are answered, nothing more is read. Datagrams beyond these limits are lost. Time is bounded too: if the remote side reads
//! or answers nothing for [`Options::timeout`], the link ends.

use std::collections::{HashMap, VecDeque};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::SendFlags;

use super::Options;
use super::error::Error;
use super::frame::{self, HEAD, Head, Ports, payload};
use crate::hca::Endpoint;
use crate::hca::inbox::Inbox;
use crate::hca::sim::link::{Answer, Body, Gone, Link, Message, RemoteOperation};

/// Limit of the data of unanswered remote requests, including data to return, in bytes.
const OWED: u64 = 64 << 20;
/// Limit of unanswered remote requests. A queue pair has at most one.
const OWED_REQUESTS: usize = 1 << 16;

/// Limit of datagrams that wait for the local HCA.
const DATAGRAMS: usize = 1024;

/// State shared by the link, its two threads and its owner.
#[derive(Debug)]
pub(super) struct Channel {
    pub ports: Ports,
    inbox: Arc<Inbox<Message>>,
    stream: UnixStream,
    options: Options,
    state: Mutex<State>,
    /// There is something to write, or the link ends.
    unsent: Condvar,
    /// Something was written, or the link ends.
    changed: Condvar,
}

/// A message in the queue.
#[derive(Debug)]
pub(super) struct Unsent {
    pub message: Message,
    /// Bytes of it that are written already.
    pub written: usize,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Unsent>,
    /// Bytes in `queue` and in the message being written.
    queued: u64,
    /// Threads that wait for `changed`.
    waiting: usize,
    /// Local requests without an answer, by QPN and sequence.
    requests: HashMap<(u32, u64), Request>,
    /// Remote requests to answer, by remote QPN and sequence, with the bytes they hold.
    owed: HashMap<(u32, u64), u64>,
    owed_bytes: u64,
    /// When bytes were last transferred in either direction.
    moved: Instant,
    /// The owner drops the link: no more requests in either direction.
    closing: bool,
    ended: Option<Arc<Error>>,
}

/// A local request without an answer.
#[derive(Debug)]
struct Request {
    /// The remote QPN.
    peer: u32,
    /// Longest valid answer in bytes.
    max_answer: u64,
    since: Instant,
}

impl Channel {
    pub(super) fn new(
        ports: Ports,
        inbox: Arc<Inbox<Message>>,
        stream: UnixStream,
        options: Options,
    ) -> Self {
        Self {
            ports,
            inbox,
            stream,
            options,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                queued: 0,
                waiting: 0,
                requests: HashMap::new(),
                owed: HashMap::new(),
                owed_bytes: 0,
                moved: Instant::now(),
                closing: false,
                ended: None,
            }),
            unsent: Condvar::new(),
            changed: Condvar::new(),
        }
    }

    /// Why the link ended, if it did.
    pub(super) fn ended(&self) -> Option<Arc<Error>> {
        self.lock().ended.clone()
    }

    /// Ends the link: answers local requests with [`Answer::NotConnected`].
    pub(super) fn end(&self, why: Error) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(Arc::new(why));
        let requests = std::mem::take(&mut state.requests);
        state.queue = VecDeque::new();
        state.queued = 0;
        state.owed = HashMap::new();
        drop(state);
        self.unsent.notify_all();
        self.changed.notify_all();
        // Ignored: the only error is that the remote side has closed it.
        let _ = self.stream.shutdown(Shutdown::Both);
        for ((qpn, sequence), Request { peer, .. }) in requests {
            self.answer_locally(qpn, peer, sequence, Answer::NotConnected);
        }
    }

    /// Writes all messages and answers all remote requests, within `timeout`, then ends the link.
    pub(super) fn close(&self, timeout: Duration) {
        let mut state = self.lock();
        state.closing = true;
        state.waiting += 1;
        self.changed.notify_all();
        let busy = |state: &mut State| {
            state.ended.is_none() && (state.queued > 0 || !state.owed.is_empty())
        };
        state = match self.changed.wait_timeout_while(state, timeout, busy) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        };
        state.waiting -= 1;
        drop(state);
        self.end(Error::Dropped);
    }

    /// The next message to write; `None` at the end.
    pub(super) fn next(&self) -> Option<Unsent> {
        let timeout = self.options.timeout;
        let mut state = self.lock();
        loop {
            if state.ended.is_some() {
                return None;
            }
            if let Some(message) = state.queue.pop_front() {
                return Some(message);
            }
            // A request that the HCA's thread writes itself does not wake this one.
            let left = match state.quiet() {
                None => timeout / 4,
                Some(quiet) => timeout.saturating_sub(quiet),
            };
            if left.is_zero() {
                drop(state);
                self.end(Error::Silent(timeout));
                return None;
            }
            let waited = self.unsent.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes a transfer of bytes.
    pub(super) fn moved(&self) {
        self.lock().moved = Instant::now();
    }

    /// Notes that a message of the queue is written.
    pub(super) fn written(&self, message: &Message) {
        let mut state = self.lock();
        state.queued = state.queued.saturating_sub(size(message));
        self.note_written(&mut state, message);
    }

    fn note_written(&self, state: &mut State, message: &Message) {
        state.moved = Instant::now();
        if let Body::Answer(_) = message.body
            && let Some(bytes) = state.owed.remove(&(message.to.qpn, message.sequence))
        {
            state.owed_bytes -= bytes;
        }
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Writes as much of a short message as the socket takes at once, in the calling thread: waking the one that writes takes longer.
    fn write_now(&self, message: &Message) -> usize {
        let Some(bytes) = frame::short(message) else {
            return 0;
        };
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // The writing thread meets an error again, and ends the link.
        rustix::net::send(&self.stream, &bytes, flags).unwrap_or(0)
    }

    /// Checks the head of a message, and waits until there is memory for its data or its answer.
    pub(super) fn admit(&self, head: &Head) -> Result<(), &'static str> {
        let Message { from, to, sequence, .. } = head.message;
        let mut state = self.lock();
        state.moved = Instant::now();
        let operation = match &head.message.body {
            Body::Request(operation) => operation,
            Body::Datagram { .. } => return Ok(()),
            Body::Answer(answer) => {
                return match state.requests.get(&(to.qpn, sequence)) {
                    // This side ended the link: later messages are dropped.
                    None if state.ended.is_some() => Ok(()),
                    None => Err("answer without a matching request"),
                    Some(request) if request.peer != from.qpn => {
                        Err("answer from an unexpected queue pair")
                    }
                    Some(request)
                        if matches!(answer, Answer::Done(_))
                            && head.length > request.max_answer =>
                    {
                        Err("answer longer than requested")
                    }
                    Some(_) => Ok(()),
                };
            }
        };
        let holds = HEAD as u64 + head.length.max(answer_length(operation));
        let full = |state: &mut State| {
            state.ended.is_none()
                && !state.owed.is_empty()
                && (state.owed_bytes + holds > OWED || state.owed.len() >= OWED_REQUESTS)
        };
        if state.owed.contains_key(&(from.qpn, sequence)) {
            return Err("duplicate number of an unanswered request");
        }
        state.waiting += 1;
        state = self.changed.wait_while(state, full).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        if !state.closing && state.ended.is_none() {
            state.owed.insert((from.qpn, sequence), holds);
            state.owed_bytes += holds;
        }
        Ok(())
    }

    /// Delivers an admitted message to the HCA.
    pub(super) fn arrived(&self, message: Message) {
        let key = (message.from.qpn, message.sequence);
        let mut state = self.lock();
        let is_expected = match &message.body {
            Body::Datagram { .. } => {
                let is_received = !state.closing && state.ended.is_none();
                is_received && self.inbox.len() < DATAGRAMS
            }
            Body::Request(_) => state.owed.contains_key(&key),
            Body::Answer(_) => state.requests.remove(&(message.to.qpn, message.sequence)).is_some(),
        };
        drop(state);
        let (local, peer, sequence) = (message.to, message.from, message.sequence);
        let is_request = matches!(message.body, Body::Request(_));
        if is_expected && !self.inbox.put(message) && is_request {
            // The local HCA is dropped before its link.
            let body = Body::Answer(Answer::NotConnected);
            let _ = self.deliver(Message { from: local, to: peer, sequence, body });
        }
    }

    /// Answers a local request in place of the remote side.
    fn answer_locally(&self, qpn: u32, peer: u32, sequence: u64, answer: Answer) {
        // Ignored: a dropped HCA needs no answer.
        self.inbox.put(Message {
            from: Endpoint::new(self.ports.peer, peer),
            to: Endpoint::new(self.ports.local, qpn),
            sequence,
            body: Body::Answer(answer),
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Time without a transfer while a local request waits; `None` if none waits.
    fn quiet(&self) -> Option<Duration> {
        let oldest = self.requests.values().map(|request| request.since).min()?;
        Some(oldest.max(self.moved).elapsed())
    }
}

impl Link for Channel {
    fn deliver(&self, message: Message) -> Result<(), Gone> {
        let bytes = size(&message);
        let mut state = self.lock();
        if state.ended.is_some() {
            return Err(Gone);
        }
        let is_full = state.queued > 0 && state.queued + bytes > self.options.room;
        let is_datagram = matches!(message.body, Body::Datagram { .. });
        if is_datagram && (is_full || state.closing) {
            return Ok(());
        }
        if let Body::Request(operation) = &message.body {
            if state.closing {
                return Err(Gone);
            }
            if is_full {
                drop(state);
                self.answer_locally(
                    message.from.qpn,
                    message.to.qpn,
                    message.sequence,
                    Answer::NotReady,
                );
                return Ok(());
            }
            let request = Request {
                peer: message.to.qpn,
                max_answer: answer_length(operation),
                since: Instant::now(),
            };
            state.requests.insert((message.from.qpn, message.sequence), request);
        }
        let written = match state.queued {
            0 => self.write_now(&message),
            _ => 0,
        };
        if written as u64 == bytes {
            self.note_written(&mut state, &message);
            return Ok(());
        }
        state.queued += bytes;
        state.queue.push_back(Unsent { message, written });
        drop(state);
        self.unsent.notify_all();
        Ok(())
    }
}

fn size(message: &Message) -> u64 {
    (HEAD + payload(message).len()) as u64
}

/// Longest answer to a request, in bytes.
fn answer_length(operation: &RemoteOperation) -> u64 {
    match operation {
        RemoteOperation::Send { .. } | RemoteOperation::Write { .. } => 0,
        RemoteOperation::Read { length, .. } => *length,
        RemoteOperation::CompareSwap { .. } | RemoteOperation::FetchAdd { .. } => 8,
    }
}
