//! Message queue and polling interval of an HCA's thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time without work before the thread sleeps between polls.
const SPIN: Duration = Duration::from_micros(100);
/// Sleep between polls, [`LONG_NAP`] after [`LONG`] without work.
const NAP: Duration = Duration::from_micros(20);
const LONG_NAP: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_millis(50);

/// Messages for a thread.
#[derive(Debug)]
pub(in crate::hca) struct Inbox<M> {
    inner: Mutex<Inner<M>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inner<M> {
    messages: VecDeque<M>,
    awake: bool,
    /// The thread sleeps.
    asleep: bool,
    closed: bool,
}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        let inner = Inner { messages: VecDeque::new(), awake: false, asleep: false, closed: false };
        Self { inner: Mutex::new(inner), changed: Condvar::new() }
    }
}

impl<M> Inbox<M> {
    /// Adds a message. False if closed.
    pub(in crate::hca) fn put(&self, message: M) -> bool {
        let mut inner = self.lock();
        if !inner.closed {
            inner.messages.push_back(message);
            if inner.asleep {
                self.changed.notify_all();
            }
        }
        !inner.closed
    }

    /// The number of messages.
    pub(in crate::hca) fn len(&self) -> usize {
        self.lock().messages.len()
    }

    /// Takes all messages; `None` if closed.
    pub(in crate::hca) fn take(&self) -> Option<VecDeque<M>> {
        let mut inner = self.lock();
        (!inner.closed).then(|| std::mem::take(&mut inner.messages))
    }

    /// Takes all messages, even if closed.
    pub(in crate::hca) fn rest(&self) -> VecDeque<M> {
        std::mem::take(&mut self.lock().messages)
    }

    /// Sleeps until a message, [`Self::wake`] or [`Self::close`].
    fn sleep(&self, timeout: Duration) {
        let idle =
            |inner: &mut Inner<M>| !inner.awake && !inner.closed && inner.messages.is_empty();
        let mut inner = self.lock();
        inner.asleep = true;
        let slept = self.changed.wait_timeout_while(inner, timeout, idle);
        let (mut inner, _) = slept.unwrap_or_else(PoisonError::into_inner);
        (inner.awake, inner.asleep) = (false, false);
    }

    pub(in crate::hca) fn wake(&self) {
        self.lock().awake = true;
        self.changed.notify_all();
    }

    /// Rejects later messages.
    pub(in crate::hca) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner<M>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Polling interval of a thread: grows while there is no work.
#[derive(Debug)]
pub(in crate::hca) struct Pace {
    active: Instant,
}

impl Pace {
    pub(in crate::hca) fn new() -> Self {
        let active = Instant::now();
        Self { active }
    }

    /// Pauses after a poll.
    pub(in crate::hca) fn rest<M>(&mut self, worked: bool, inbox: &Inbox<M>) {
        let idle = self.active.elapsed();
        if worked {
            self.active = Instant::now();
        } else if idle < SPIN {
            std::thread::yield_now();
        } else {
            inbox.sleep(if idle < LONG { NAP } else { LONG_NAP });
        }
    }
}
