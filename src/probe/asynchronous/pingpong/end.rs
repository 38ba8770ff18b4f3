//! Resources of both processes: an HCA that reaches the other's, connected queues, and waits with timeouts.

use std::rc::Rc;
use std::time::{Duration, Instant};

use gdsync::Watched;
use gdsync::hca::sim::{SimHca, socket};
use gdsync::hca::{Endpoint, Hca};
use gdsync::queue::Wait;

use super::super::polls::Polls;
use super::super::queues::Queues;
use super::super::session::Session;
use super::super::settings::{MAX_SLOT_BYTES, Series, Transport};
use super::super::task::Side;
use super::peer::{Message, Peer};
use crate::probe::failure::StepError;
use crate::probe::hca::HcaChoice;

/// Messages per reported step.
const STEP: u32 = 1000;
/// Time for a proxy to post receives, without which datagrams are lost.
const SETTLE: Duration = Duration::from_millis(5);
/// Time for a step: 0.1 s per message, for two processes on a busy emulated machine.
pub const STEP_TIME: Duration = Duration::from_secs(100);

/// The HCA of a process. Software HCAs are connected over the second socket, and have different LIDs.
pub struct Link {
    hca: Rc<dyn Hca>,
    connection: Option<socket::Connection>,
}

/// One of the two processes.
pub struct End<'a> {
    pub session: &'a Session<'a>,
    pub queues: Queues,
    // Dropped after the queues, which may still send.
    link: &'a Link,
    pub peer: &'a mut Peer,
    pub series: Series,
    /// The number of the next message.
    pub next: u32,
}

impl<'a> End<'a> {
    /// Creates queues and connects them to those of the other process.
    pub fn new(
        session: &'a Session<'a>,
        link: &'a Link,
        peer: &'a mut Peer,
        series: Series,
    ) -> Result<Self, StepError> {
        // Twice the messages in flight: a send may complete after its answer has arrived.
        let messages = series.slots() as u32 * 2;
        let hca = Rc::clone(&link.hca);
        let mut queues = Queues::unconnected(session, hca, messages, series.transport)?;
        peer.send(Message::Queues(queues.pair.endpoint.to_string()));
        let Message::Queues(remote) = peer.receive(Duration::ZERO)? else {
            return Err(StepError::OutOfStep);
        };
        let remote: Endpoint = remote.parse().map_err(|_| StepError::OutOfStep)?;
        queues.connect(remote)?;
        Ok(Self { session, queues, link, peer, series, next: 0 })
    }

    /// Messages per step, at least those in flight. The local process keeps all until the end of the step.
    pub fn step(&self) -> u32 {
        let most = (MAX_SLOT_BYTES / self.series.bytes) as u32;
        STEP.min(most).max(self.series.slots() as u32)
    }

    /// The number of round trips, the same in both processes.
    pub fn messages(&self) -> u32 {
        self.series.messages(&self.session.task.terms)
    }

    /// Tells the other process that receives are posted.
    pub fn ready(&mut self) {
        let hca = &self.session.task.hca;
        if self.announces_batches() && matches!(hca, Some(HcaChoice::Proxy(_))) {
            std::thread::sleep(SETTLE);
        }
        self.peer.send(Message::Ready);
    }

    /// Whether the remote process announces the receives of each batch, because a datagram without a receive is lost.
    pub fn announces_batches(&self) -> bool {
        self.series.transport == Transport::Ud
    }

    /// Takes the number of the next message.
    pub fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        number
    }

    /// Polls until `done` returns true. The end of the other process and a timeout are errors.
    pub fn until(
        &mut self,
        what: &'static str,
        mut done: impl FnMut(&mut Self) -> Result<bool, StepError>,
    ) -> Result<(), StepError> {
        let timeout = self.session.timeout * 4;
        let begun = Instant::now();
        let mut polls = Polls::default();
        while !done(self)? {
            if !polls.pause() {
                continue;
            }
            self.peer.peek()?;
            if begun.elapsed() > timeout {
                return Err(self.why(StepError::Late { what, timeout }));
            }
        }
        Ok(())
    }

    /// Polls until a message arrives.
    pub fn arrives(&mut self) -> Result<(), StepError> {
        self.until("a message of the other process", |end| Ok(end.queues.completed()? > 0))
    }

    /// Ends an unfinished stream: releases its waits at once.
    pub fn release<'w>(&self, waits: impl Iterator<Item = &'w Wait>) -> Result<(), StepError> {
        let watched = waits.map(Watched::completion).collect();
        let guard = self.session.watchdog.watch(watched, Duration::from_millis(1));
        let ended = self.session.stream.synchronize_within(self.session.timeout * 4);
        drop(guard);
        Ok(ended?)
    }

    /// The cause of a failure, if a WQE failed or the connection of two software HCAs ended.
    pub fn why(&mut self, failure: StepError) -> StepError {
        match self.queues.completed() {
            Err(failed @ StepError::Wqe { .. }) => failed,
            _ => match self.link.connection.as_ref().and_then(socket::Connection::ended) {
                Some(ended) => {
                    StepError::Released(format!("{failure}: {}", gpu::sentence(&*ended)))
                }
                None => failure,
            },
        }
    }
}

impl Link {
    pub fn open(session: &Session<'_>, side: Side, peer: &mut Peer) -> Result<Self, StepError> {
        let lid = match side {
            Side::Local => 1,
            Side::Remote => 2,
        };
        let hca = session.task.hca.as_ref().ok_or(StepError::OutOfStep)?;
        if *hca != HcaChoice::Sim {
            return Ok(Self { hca: hca.open(session)?, connection: None });
        }
        let hca = SimHca::with_lid(session.allocator.clone(), lid)?;
        let options = socket::Options {
            timeout: session.task.terms.timeout.max(socket::Options::default().timeout),
            ..socket::Options::default()
        };
        let connection =
            socket::join(&hca, peer.messages()?, options).map_err(gdsync::Error::from)?;
        Ok(Self { hca: Rc::new(hca), connection: Some(connection) })
    }
}
