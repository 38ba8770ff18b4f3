//! The caller's end of a connection between two processes.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mp::session::Session;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::conditions::Conditions;
use super::error::Error;
use super::pulse::{PEER_TIMEOUT, Shared, reason_for_peer};
use super::wire::{Envelope, failed};

/// Interval of checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the peer may take to notice the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to the peer. A thread keeps it alive and notices the peer's end while the caller measures;
/// [`Link::failure`] returns it without waiting. Dropping it without [`Link::bye`] sends the peer a failure with the last
/// error of this process.
pub struct Link<'a, M> {
    shared: Arc<Shared<M>>,
    thread: Option<JoinHandle<()>>,
    peer: SocketAddr,
    local: SocketAddr,
    interrupted: &'a (dyn Fn() -> bool + Sync),
    /// The last error that was returned to the caller.
    last_error: Mutex<Option<Error>>,
}

impl<'a, M: Serialize + DeserializeOwned + Send + 'static> Link<'a, M> {
    /// Makes one of a connection whose ends have proved the secret to each other.
    pub(super) fn new(
        stream: TcpStream,
        peer: SocketAddr,
        session: Session,
        conditions: &Conditions<'a>,
    ) -> Result<Self, Error> {
        let system = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| Error::System { what, why: error.to_string() }
        };
        let local = stream
            .local_addr()
            .map_err(system("cannot read the local address of the connection"))?;
        let shared = Arc::new(Shared::new(stream, peer, session.writer));
        let thread = std::thread::Builder::new()
            .name("rendezvous".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.run(session.reader)
            })
            .map_err(system("cannot start a thread"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            peer,
            local,
            interrupted: conditions.interrupted,
            last_error: Mutex::new(None),
        })
    }

    /// Sends a message. Success does not mean that the peer received it.
    pub fn send(&self, message: &M) -> Result<(), Error> {
        let payload = match Envelope::Message(message).payload() {
            Ok(payload) => payload,
            Err(why) => return Err(self.record(Error::InvalidMessage { why })),
        };
        if let Some(error) = self.failure() {
            return Err(error);
        }
        if self.shared.state().done {
            return Err(self.record(Error::PeerDone { peer: self.peer }));
        }
        let go_on = || !(self.interrupted)() && self.shared.state().ending.is_none();
        let Err(error) = self.shared.write(&payload, Instant::now() + PEER_TIMEOUT, &go_on) else {
            return Ok(());
        };
        if (self.interrupted)() {
            return Err(self.interrupt());
        }
        // The peer's last message is a better reason than a broken pipe.
        self.wait_until(Instant::now() + CLOSE_TIMEOUT, |state| {
            state.ending.is_some() || state.over
        });
        let peer = self.peer;
        let (ending, done) = {
            let state = self.shared.state();
            (state.ending.clone(), state.done)
        };
        let ending = match ending {
            Some(ending) => ending,
            None if done => Error::PeerDone { peer },
            None => {
                let why = error.to_string();
                let gone = Error::PeerGone { peer, why };
                self.shared.end(gone.clone());
                gone
            }
        };
        Err(self.record(ending))
    }

    /// Receives the next message.
    pub fn receive(&self, until: Instant) -> Result<M, Error> {
        let begun = Instant::now();
        loop {
            let (message, ending, done) = {
                let mut state = self.shared.state();
                (state.next(), state.ending.clone(), state.done)
            };
            if (self.interrupted)() {
                return Err(self.interrupt());
            }
            if let Some(message) = message {
                // An earlier timeout no longer ends the connection.
                self.last_error().take();
                return Ok(message);
            }
            let peer = self.peer;
            let error = match (ending, done) {
                (Some(ending), _) => ending,
                (None, true) => Error::PeerDone { peer },
                (None, false) if Instant::now() >= until => {
                    Error::TimedOut { peer, waited: begun.elapsed() }
                }
                (None, false) => {
                    self.wait_until(until.min(Instant::now() + POLL_INTERVAL), |state| {
                        !state.waiting.is_empty() || state.ending.is_some() || state.done
                    });
                    continue;
                }
            };
            return Err(self.record(error));
        }
    }

    /// Sends a message and receives one.
    pub fn exchange(&self, mine: &M, until: Instant) -> Result<M, Error> {
        self.send(mine)?;
        self.receive(until)
    }

    /// Why the connection ended: the peer failed or is dead, or an interrupt. Earlier messages
    /// can still be received. A peer that finished has not failed until a message is expected from it.
    pub fn failure(&self) -> Option<Error> {
        let ending = self.shared.state().ending.clone();
        match ending {
            Some(error) => Some(self.record(error)),
            None if (self.interrupted)() => Some(self.interrupt()),
            None => None,
        }
    }

    /// Sends a failure to the peer and ends the connection.
    pub fn fail(mut self, why: &str) {
        self.close(&failed(why));
    }

    /// Ends the connection in order, and waits briefly for the peer. The error says how the peer ended
    /// before that.
    pub fn bye(mut self) -> Result<(), Error> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        self.close(&Envelope::Bye);
        match &self.shared.state().ending {
            Some(error @ Error::PeerFailed { .. }) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Keeps an error as the reason to send on drop.
    fn record(&self, error: Error) -> Error {
        *self.last_error() = Some(error.clone());
        error
    }

    /// Handles an interrupt: tells the peer at once.
    fn interrupt(&self) -> Error {
        self.shared.end(Error::Interrupted);
        self.shared.send_last(&failed(&reason_for_peer(&Error::Interrupted)));
        self.record(Error::Interrupted)
    }

    fn wait_until(&self, until: Instant, enough: impl Fn(&super::pulse::LinkState<M>) -> bool) {
        let mut state = self.shared.state();
        while !enough(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let guard = self.shared.changed.wait_timeout(state, left);
            state = guard.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<M> Link<'_, M> {
    fn last_error(&self) -> MutexGuard<'_, Option<Error>> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// This end of the connection: an address at which the other machine reaches this one.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Sends the last message, waits briefly for the peer to end, and ends the thread.
    fn close(&mut self, last: &Envelope<()>) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let is_open = {
            let mut state = self.shared.state();
            // The thread or an interrupt may have sent another end before.
            state.leaving = state.ending.is_none() && !state.done && !state.over;
            state.leaving
        };
        if is_open {
            self.shared.send_last(last);
        }
        let mut state = self.shared.state();
        let until = Instant::now() + CLOSE_TIMEOUT;
        while !state.over && Instant::now() < until {
            let guard = self.shared.changed.wait_timeout(state, POLL_INTERVAL);
            state = guard.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.stop = true;
        drop(state);
        // This wakes the thread.
        let _ = self.shared.stream.shutdown(Shutdown::Both);
        // Ignored: a panic of the thread is not repeated here.
        let _ = thread.join();
    }
}

impl<M> Drop for Link<'_, M> {
    fn drop(&mut self) {
        let error = self.last_error().take();
        let why = match &error {
            Some(error) => reason_for_peer(error),
            None => "it ended early; see its output".to_owned(),
        };
        self.close(&failed(&why));
    }
}
