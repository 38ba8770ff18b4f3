//! A link over a socket: what waits to be written, whose answers are awaited, and what is owed to the remote side.
//!
//! Memory is bounded. Of this side's requests one a queue pair is in progress, and where more than [`Options::room`] bytes wait to be
//! written, a further one is answered as NICs answer where there is no room: not ready, try again. What is owed to the remote side is
//! held at [`OWED`] bytes, or one request: beyond it nothing more is read. Time is bounded as well: a remote side that takes nothing, or answers
//! nothing, for [`Options::timeout`] has the link end.

use std::collections::{HashMap, VecDeque};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Options;
use super::error::Error;
use super::frame::{HEAD, Head, Ports, brought};
use crate::hca::Endpoint;
use crate::hca::inbox::Inbox;
use crate::hca::sim::link::{Answer, Body, Gone, Link, Message, RemoteOperation};

/// Bytes that requests of the remote side brought, or ask for, and that were not answered yet.
const OWED: u64 = 64 << 20;
/// And such requests: no queue pair has two.
const OWED_REQUESTS: usize = 1 << 16;

/// What the link, its two threads and its owner share.
#[derive(Debug)]
pub(super) struct Way {
    pub ports: Ports,
    inbox: Arc<Inbox<Message>>,
    stream: UnixStream,
    options: Options,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Message>,
    /// Bytes of the queue, and of the message that is being written.
    queued: u64,
    /// Requests of this side, by queue pair and number.
    asked: HashMap<(u32, u64), Asked>,
    /// Requests of the remote side, by its queue pair and number: what each may hold of memory.
    owed: HashMap<(u32, u64), u64>,
    owed_bytes: u64,
    /// When a byte was last taken by the remote side, or came from it.
    moved: Instant,
    /// The owner drops the link: no more requests either way.
    closing: bool,
    ended: Option<Arc<Error>>,
}

/// A request of this side.
#[derive(Debug)]
struct Asked {
    /// The far queue pair.
    of: u32,
    /// The most that its answer brings.
    most: u64,
    since: Instant,
}

impl Way {
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
                asked: HashMap::new(),
                owed: HashMap::new(),
                owed_bytes: 0,
                moved: Instant::now(),
                closing: false,
                ended: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Why it ended, if it did.
    pub(super) fn ended(&self) -> Option<Arc<Error>> {
        self.lock().ended.clone()
    }

    /// Ends it: every request that waits is answered as by a remote side that is gone.
    pub(super) fn end(&self, why: Error) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(Arc::new(why));
        let asked = std::mem::take(&mut state.asked);
        state.queue = VecDeque::new();
        state.queued = 0;
        state.owed = HashMap::new();
        drop(state);
        self.changed.notify_all();
        // Its only error is that the remote side was faster.
        let _ = self.stream.shutdown(Shutdown::Both);
        for ((qpn, sequence), Asked { of, .. }) in asked {
            self.answer_here(qpn, of, sequence, Answer::Nobody);
        }
    }

    /// Waits until what is said has been written and what is owed been answered, but for no longer than this.
    pub(super) fn close(&self, most: Duration) {
        let mut state = self.lock();
        state.closing = true;
        self.changed.notify_all();
        let busy = |state: &mut State| {
            state.ended.is_none() && (state.queued > 0 || !state.owed.is_empty())
        };
        state = match self.changed.wait_timeout_while(state, most, busy) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        };
        drop(state);
        self.end(Error::Dropped);
    }

    /// The next message to write; `None` at the end.
    pub(super) fn next(&self) -> Option<Message> {
        let mut state = self.lock();
        loop {
            if state.ended.is_some() {
                return None;
            }
            if let Some(message) = state.queue.pop_front() {
                return Some(message);
            }
            let Some(quiet) = state.quiet() else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = self.options.timeout.saturating_sub(quiet);
            if left.is_zero() {
                drop(state);
                self.end(Error::Silent(self.options.timeout));
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Bytes went one way or the other.
    pub(super) fn moved(&self) {
        self.lock().moved = Instant::now();
    }

    /// A message has been written.
    pub(super) fn written(&self, message: &Message) {
        let mut state = self.lock();
        state.moved = Instant::now();
        state.queued = state.queued.saturating_sub(size(message));
        if let Body::Answer(_) = message.body
            && let Some(bytes) = state.owed.remove(&(message.to.qpn, message.sequence))
        {
            state.owed_bytes -= bytes;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Whether a message of which the head has come is in its place. Waits until there is memory for what it brings or asks for.
    pub(super) fn admit(&self, head: &Head) -> Result<(), &'static str> {
        let Message {
            from, to, sequence, ..
        } = head.message;
        let mut state = self.lock();
        state.moved = Instant::now();
        let operation = match &head.message.body {
            Body::Request(operation) => operation,
            Body::Answer(answer) => {
                return match state.asked.get(&(to.qpn, sequence)) {
                    // It is ended from this side, and what comes still is dropped.
                    None if state.ended.is_some() => Ok(()),
                    None => Err("answer without a matching request"),
                    Some(asked) if asked.of != from.qpn => {
                        Err("answer from an unexpected queue pair")
                    }
                    Some(asked)
                        if matches!(answer, Answer::Done(_)) && head.length > asked.most =>
                    {
                        Err("answer longer than requested")
                    }
                    Some(_) => Ok(()),
                };
            }
        };
        let holds = HEAD as u64 + head.length.max(answered(operation));
        let full = |state: &mut State| {
            state.ended.is_none()
                && !state.owed.is_empty()
                && (state.owed_bytes + holds > OWED || state.owed.len() >= OWED_REQUESTS)
        };
        if state.owed.contains_key(&(from.qpn, sequence)) {
            return Err("a request with the number of one that is not answered yet");
        }
        state = self
            .changed
            .wait_while(state, full)
            .unwrap_or_else(PoisonError::into_inner);
        if !state.closing && state.ended.is_none() {
            state.owed.insert((from.qpn, sequence), holds);
            state.owed_bytes += holds;
        }
        Ok(())
    }

    /// A message has come, and was admitted.
    pub(super) fn arrived(&self, message: Message) {
        let key = (message.from.qpn, message.sequence);
        let mut state = self.lock();
        let wanted = match &message.body {
            Body::Request(_) => state.owed.contains_key(&key),
            Body::Answer(_) => state
                .asked
                .remove(&(message.to.qpn, message.sequence))
                .is_some(),
        };
        drop(state);
        let (local, peer, sequence) = (message.to, message.from, message.sequence);
        let is_request = matches!(message.body, Body::Request(_));
        if wanted && !self.inbox.put(message) && is_request {
            // The HCA of this side is gone, and its link not yet.
            let body = Body::Answer(Answer::Nobody);
            let _ = self.deliver(Message {
                from: local,
                to: peer,
                sequence,
                body,
            });
        }
    }

    /// Answers a request of this side in the remote side's place.
    fn answer_here(&self, qpn: u32, of: u32, sequence: u64, answer: Answer) {
        // Who is gone needs none.
        self.inbox.put(Message {
            from: Endpoint::new(self.ports.peer, of),
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
    /// How long nothing has moved while a request waits for its answer; `None` where none waits.
    fn quiet(&self) -> Option<Duration> {
        let oldest = self.asked.values().map(|asked| asked.since).min()?;
        Some(oldest.max(self.moved).elapsed())
    }
}

impl Link for Way {
    fn deliver(&self, message: Message) -> Result<(), Gone> {
        let bytes = size(&message);
        let mut state = self.lock();
        if state.ended.is_some() {
            return Err(Gone);
        }
        if let Body::Request(operation) = &message.body {
            if state.closing {
                return Err(Gone);
            }
            if state.queued > 0 && state.queued + bytes > self.options.room {
                drop(state);
                self.answer_here(
                    message.from.qpn,
                    message.to.qpn,
                    message.sequence,
                    Answer::NotReady,
                );
                return Ok(());
            }
            let asked = Asked {
                of: message.to.qpn,
                most: answered(operation),
                since: Instant::now(),
            };
            state
                .asked
                .insert((message.from.qpn, message.sequence), asked);
        }
        state.queued += bytes;
        state.queue.push_back(message);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }
}

fn size(message: &Message) -> u64 {
    (HEAD + brought(message).len()) as u64
}

/// The most that the answer to a request brings.
fn answered(operation: &RemoteOperation) -> u64 {
    match operation {
        RemoteOperation::Send { .. } | RemoteOperation::Write { .. } => 0,
        RemoteOperation::Read { length, .. } => *length,
        RemoteOperation::CompareSwap { .. } | RemoteOperation::FetchAdd { .. } => 8,
    }
}
