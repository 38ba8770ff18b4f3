//! The proxy's state of a queue pair: software's queues and the verbs queue pair.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use verbs::{
    BorrowedHandle, Buffer, CompletionQueue, Datagram, Handle, Init, MemoryRegion, QueuePair,
    QueuePairState, Rts, WorkCompletion,
};

use crate::hca::Endpoint;
use crate::hca::completer::{Completer, Mark, NoPlace};
use crate::hca::port::Room;
use crate::hca::rings::{ReceiveSide, SendSide};
use crate::wire::{Completion, Event, Failed, Origin, Syndrome, Transport};

#[derive(Debug)]
pub(super) struct ProxyQueuePair {
    /// Declared before the completion queues, to be destroyed first.
    pub link: Link,
    pub sent: CompletionQueue,
    pub received: CompletionQueue,
    pub endpoint: Endpoint,
    pub transport: Transport,
    /// Address handles. The addresses in WQEs are indexes.
    pub handles: Vec<AddressHandle>,
    /// The remote QPN, once connected.
    pub peer: u32,
    pub room: Room,
    pub send: SendSide,
    pub receive: ReceiveSide,
    pub completers: [Completer; 2],
    pub bounce: Bounce,
    /// Send WQEs without a CQE.
    pub sends: VecDeque<InFlight>,
    /// Number of outstanding send work requests.
    pub posted: u32,
    /// Id of the next work request.
    pub next: u64,
    /// A WQE with an error is queued: process no more WQEs.
    pub halted: bool,
    /// Counters of the receives posted to verbs, in order.
    pub receives: VecDeque<u16>,
    /// A receive was posted to verbs since the last query of the state.
    pub unchecked: bool,
    /// `clock` at the last check of the receives.
    pub checked_at: u64,
    /// A receive that verbs cannot post, and its syndrome. Later ones wait.
    pub unusable: Option<(u16, Syndrome)>,
    /// An error occurred: fail the queue pair in this step.
    pub broken: bool,
    /// The queue pair has failed: flush all work.
    pub failed: bool,
    /// Number of CQEs so far, used as timestamp.
    pub clock: u64,
}

/// The verbs queue pair.
#[derive(Debug)]
pub(super) enum Link {
    /// Accepts receives.
    Init(QueuePair<Init>),
    /// A thread connects it.
    Connecting,
    /// Accepts sends and receives.
    Ready(QueuePair<Rts>),
    /// A program changes its state and destroys it.
    Borrowed(Borrowed),
    /// Destroyed.
    Gone,
}

#[derive(Debug)]
pub(super) enum AddressHandle {
    Own(Datagram),
    Borrowed(BorrowedHandle),
}

impl AddressHandle {
    pub(super) fn get(&self) -> Handle<'_> {
        match self {
            Self::Own(datagram) => Handle::Own(datagram),
            Self::Borrowed(handle) => Handle::Borrowed(*handle),
        }
    }
}

/// A program's queue pair and its last known state.
#[derive(Debug)]
pub(super) struct Borrowed {
    pub pair: QueuePair<verbs::Borrowed>,
    state: QueuePairState,
    queried: Option<Instant>,
}

/// Interval between queries of the state, until RTS.
const QUERY: Duration = Duration::from_millis(1);

impl Borrowed {
    pub(super) fn new(pair: QueuePair<verbs::Borrowed>) -> Self {
        Self { pair, state: QueuePairState::Reset, queried: None }
    }

    /// Queries the state at the next use.
    pub(super) fn refresh(&mut self) {
        self.queried = None;
    }

    /// True if it accepts receives.
    pub(super) fn receives(&mut self) -> Result<bool, verbs::Error> {
        Ok(self.state != QueuePairState::Reset || self.query()? != QueuePairState::Reset)
    }

    /// True if it accepts sends.
    pub(super) fn sends(&mut self) -> Result<bool, verbs::Error> {
        let accepts = |state| matches!(state, QueuePairState::Sends | QueuePairState::Error);
        Ok(accepts(self.state) || accepts(self.query()?))
    }

    fn query(&mut self) -> Result<QueuePairState, verbs::Error> {
        if self.queried.is_none_or(|last| last.elapsed() >= QUERY) {
            self.queried = Some(Instant::now());
            self.state = self.pair.state()?;
        }
        Ok(self.state)
    }
}

/// Registered copies of inline data, at the offsets of their WQEs in the ring, so they are free when the blocks are. There is
/// room after the end for a WQE that wraps.
#[derive(Debug)]
pub(super) struct Bounce {
    pub region: MemoryRegion,
    pub buffer: Buffer,
}

/// A WQE of the send queue without a CQE.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Work request id; WQEs that are not posted have one too.
    pub id: u64,
    pub counter: u16,
    pub opcode: u8,
    pub signalled: bool,
    /// Bytes that it returns.
    pub brings: u32,
    pub verdict: Option<Result<(), (Syndrome, u8)>>,
    pub posted: bool,
}

/// Syndrome of flushed work; there is no vendor syndrome.
pub(super) const FLUSHED: (Syndrome, u8) = (Syndrome::Flushed, 0);

impl ProxyQueuePair {
    /// Writes CQEs of finished WQEs in order: errors always, successes if signalled.
    pub(super) fn retire(&mut self) {
        while let Some(verdict) = self.sends.front().and_then(|first| first.verdict) {
            let Some(first) = self.sends.pop_front() else {
                return;
            };
            if first.posted {
                self.posted = self.posted.saturating_sub(1);
            }
            // A WQE that was not posted succeeds only if all earlier ones did.
            let verdict =
                verdict.and(if self.broken && !first.posted { Err(FLUSHED) } else { Ok(()) });
            match verdict {
                Err((syndrome, vendor)) => {
                    self.broken = true;
                    self.send_failed(first.counter, first.opcode, syndrome, vendor);
                }
                Ok(()) if first.signalled => {
                    let event = Event::Sent { opcode: first.opcode };
                    let mut completion = Completion::new(event, self.endpoint.qpn, first.counter);
                    completion.bytes = first.brings;
                    self.complete(0, completion);
                }
                Ok(()) => {}
            }
        }
    }

    /// Writes the error CQE of a send.
    pub(super) fn send_failed(&mut self, counter: u16, opcode: u8, syndrome: Syndrome, vendor: u8) {
        let failed = Failed { syndrome, vendor, opcode };
        let event = Event::SendFailed(failed);
        self.complete(0, Completion::new(event, self.endpoint.qpn, counter));
    }

    /// Writes the error CQE of a receive.
    pub(super) fn receive_failed(&mut self, counter: u16, syndrome: Syndrome, vendor: u8) {
        let failed = Failed { syndrome, vendor, opcode: 0 };
        let event = Event::ReceiveFailed(failed);
        self.complete(1, Completion::new(event, self.endpoint.qpn, counter));
    }

    /// Writes the CQE of a receive.
    pub(super) fn arrived(&mut self, counter: u16, event: Event, done: &WorkCompletion) {
        let mut completion = Completion::new(event, self.endpoint.qpn, counter);
        completion.bytes = done.bytes;
        completion.source = self.peer;
        if self.transport == Transport::Datagram {
            completion.source = done.source.queue_pair;
            completion.origin = Origin {
                lid: done.source.lid,
                path: done.source.path,
                level: done.source.level,
                has_route: done.has_route,
            };
        }
        self.complete(1, completion);
    }

    /// Writes a CQE to the send (0) or receive (1) completion queue. A full queue is an overrun, as on a NIC.
    fn complete(&mut self, side: usize, mut completion: Completion) {
        self.clock += 1;
        if completion.event.failed().is_none() {
            completion.timestamp = self.clock;
        }
        let Some(completer) = self.completers.get_mut(side) else {
            return;
        };
        if let Err(NoPlace) = completer.write(&completion, Mark::Valid) {
            self.broken = true;
        }
    }
}
