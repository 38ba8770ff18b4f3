//! One end of an established connection: a thread that reads messages and sends a heartbeat each second, independent
//! of the caller. It detects a dead peer.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mp::session::{FrameError, FrameReader, FrameWriter};
use serde::de::DeserializeOwned;

use super::error::Error;
use super::socket::{again, drain, readable, writable, write_all};
use super::wire::{Envelope, REASON, failed, quote, shortened};

/// Interval of heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A peer that sends nothing for so long is dead.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(4);
/// How long the last message may take to send.
const SEND_TIMEOUT: Duration = Duration::from_millis(500);
/// Most unread messages, and most bytes of them.
const MAX_QUEUED: usize = 1024;
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// State shared by the thread and the caller.
pub struct Shared<M> {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    pub state: Mutex<LinkState<M>>,
    /// Something of the state changed.
    pub changed: Condvar,
    /// Held while a frame is made and written: frames leave in the order of their numbers.
    writing: Mutex<Writing>,
}

/// The sending direction.
struct Writing {
    frames: FrameWriter,
    /// A frame was written in part: no other can follow.
    cut: bool,
}

/// Received messages and the state of the connection.
pub struct LinkState<M> {
    /// Unread messages, each with its size in bytes.
    pub waiting: VecDeque<(usize, M)>,
    waiting_bytes: usize,
    /// Reports why the probe ends.
    pub ending: Option<Error>,
    /// The peer sent [`Envelope::Bye`].
    pub done: bool,
    /// This process sent its last message and waits for the peer's end.
    pub leaving: bool,
    /// The thread must end.
    pub stop: bool,
    /// The thread has ended.
    pub over: bool,
}

impl<M> LinkState<M> {
    pub fn next(&mut self) -> Option<M> {
        let (bytes, message) = self.waiting.pop_front()?;
        self.waiting_bytes -= bytes;
        Some(message)
    }
}

/// Result of a step of the thread.
enum Progress {
    Continue,
    Ended,
}

impl<M> Shared<M> {
    /// The stream must be non-blocking.
    pub fn new(stream: TcpStream, peer: SocketAddr, frames: FrameWriter) -> Self {
        Self {
            stream,
            peer,
            state: Mutex::new(LinkState {
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                ending: None,
                done: false,
                leaving: false,
                stop: false,
                over: false,
            }),
            changed: Condvar::new(),
            writing: Mutex::new(Writing { frames, cut: false }),
        }
    }

    /// The state; poisoning is ignored.
    pub fn state(&self) -> MutexGuard<'_, LinkState<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records why the connection ended, unless that is known.
    pub fn end(&self, error: Error) {
        let mut state = self.state();
        state.ending.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Writes a payload as a frame. `go_on` is polled while the socket's buffer is full.
    pub fn write(
        &self,
        payload: &[u8],
        until: Instant,
        go_on: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_with(writing, payload, until, go_on)
    }

    fn write_with(
        &self,
        mut writing: MutexGuard<'_, Writing>,
        payload: &[u8],
        until: Instant,
        go_on: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        if writing.cut {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let Some(frame) = writing.frames.frame(payload) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        write_all(&self.stream, &frame, until, go_on).inspect_err(|_| writing.cut = true)
    }

    /// Sends the last message, with a short timeout, and closes the sending direction.
    pub fn send_last(&self, last: &Envelope<()>) {
        let until = Instant::now() + SEND_TIMEOUT;
        while let Ok(payload) = last.payload() {
            if let Ok(writing) = self.writing.try_lock() {
                // Ignored: the peer sees the end of the connection.
                let _ = self.write_with(writing, &payload, until, &|| true);
                break;
            }
            if Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Sends a heartbeat, unless a frame is being written or the socket's buffer is full: the reading thread must not
    /// block on a peer that may block too.
    fn beat(&self) {
        let Ok(mut writing) = self.writing.try_lock() else {
            return;
        };
        let Ok(payload) = Envelope::<()>::Alive.payload() else {
            return;
        };
        if writing.cut || !writable(&self.stream) {
            return;
        }
        if let Some(frame) = writing.frames.frame(&payload) {
            // Ignored: the reader finds the error.
            writing.cut =
                write_all(&self.stream, &frame, Instant::now() + SEND_TIMEOUT, &|| true).is_err();
        }
    }
}

impl<M: DeserializeOwned> Shared<M> {
    /// Runs the thread until the connection ends.
    pub fn run(&self, mut frames: FrameReader) {
        let mut last_received = Instant::now();
        let mut next_beat = last_received;
        while let Progress::Continue = self.step(&mut frames, &mut last_received, &mut next_beat) {}
        let reason = {
            let state = self.state();
            match &state.ending {
                Some(error) if !state.leaving && !matches!(error, Error::PeerFailed { .. }) => {
                    Some(failed(&reason_for_peer(error)))
                }
                _ => None,
            }
        };
        if let Some(reason) = reason {
            self.send_last(&reason);
            drain(&self.stream, Instant::now() + SEND_TIMEOUT);
        }
        let _ = self.stream.shutdown(Shutdown::Both);
        self.state().over = true;
        self.changed.notify_all();
    }

    fn step(
        &self,
        frames: &mut FrameReader,
        last_received: &mut Instant,
        next_beat: &mut Instant,
    ) -> Progress {
        loop {
            match frames.take() {
                Ok(Some(payload)) => {
                    if let Progress::Ended = self.take(&payload) {
                        return Progress::Ended;
                    }
                }
                Ok(None) => break,
                Err(FrameError::TooLong) => {
                    return self.malformed("a frame of more than 64 KiB");
                }
                Err(FrameError::Forged) => {
                    self.end(Error::Forged { peer: self.peer });
                    return Progress::Ended;
                }
            }
        }
        let (leaving, stop) = {
            let state = self.state();
            (state.leaving, state.stop || state.ending.is_some())
        };
        if stop {
            return Progress::Ended;
        }
        if *next_beat <= Instant::now() {
            if !leaving {
                self.beat();
            }
            *next_beat = Instant::now() + HEARTBEAT;
        }
        let wake = (*next_beat)
            .min(*last_received + PEER_TIMEOUT)
            .saturating_duration_since(Instant::now());
        // A process that was stopped reads pending input before it times out.
        let ready = readable(&self.stream, wake)
            || (last_received.elapsed() >= PEER_TIMEOUT && readable(&self.stream, Duration::ZERO));
        if !ready {
            if last_received.elapsed() < PEER_TIMEOUT {
                return Progress::Continue;
            }
            return self.gone(&format!("no heartbeat for {} s", PEER_TIMEOUT.as_secs()));
        }
        let mut buffer = [0; 16384];
        match (&self.stream).read(&mut buffer) {
            Ok(0) => self.gone("it closed the connection without a reason"),
            Ok(count) => {
                *last_received = Instant::now();
                frames.feed(&buffer[..count]);
                Progress::Continue
            }
            Err(error) if again(&error) => Progress::Continue,
            Err(error) => self.gone(&error.to_string()),
        }
    }

    /// Handles the payload of a frame.
    fn take(&self, text: &[u8]) -> Progress {
        let envelope = match serde_json::from_slice::<Envelope<M>>(text) {
            Ok(envelope) => envelope,
            Err(error) => return self.malformed(&format!("{} ({error})", quote(text))),
        };
        match envelope {
            Envelope::Alive => Progress::Continue,
            Envelope::Message(message) => {
                let mut state = self.state();
                if state.waiting.len() >= MAX_QUEUED
                    || state.waiting_bytes + text.len() > MAX_QUEUED_BYTES
                {
                    drop(state);
                    return self.malformed("more unread messages than allowed");
                }
                state.waiting_bytes += text.len();
                state.waiting.push_back((text.len(), message));
                self.changed.notify_all();
                Progress::Continue
            }
            Envelope::Failed { why } => {
                self.end(Error::PeerFailed { peer: self.peer, why: shortened(&why, REASON) });
                Progress::Ended
            }
            Envelope::Bye => {
                let leaving = {
                    let mut state = self.state();
                    state.done = true;
                    self.changed.notify_all();
                    state.leaving
                };
                if !leaving {
                    self.send_last(&Envelope::Bye);
                }
                Progress::Ended
            }
        }
    }

    fn gone(&self, why: &str) -> Progress {
        self.end(Error::PeerGone { peer: self.peer, why: why.to_owned() });
        Progress::Ended
    }

    fn malformed(&self, quote: &str) -> Progress {
        self.end(Error::Malformed { peer: self.peer, quote: quote.to_owned() });
        Progress::Ended
    }
}

/// The reason to send to the peer for an error of this process.
pub fn reason_for_peer(error: &Error) -> String {
    match error {
        Error::Interrupted => "it was interrupted (Ctrl-C or a signal)".to_owned(),
        Error::PeerGone { why, .. } => format!("it lost the connection: {why}"),
        Error::Malformed { quote, .. } => {
            format!("it received a malformed message: {quote}")
        }
        Error::Forged { .. } => "it received a frame with a wrong authentication code".to_owned(),
        Error::TimedOut { .. } => "it received no message before its deadline".to_owned(),
        other => other.to_string(),
    }
}
