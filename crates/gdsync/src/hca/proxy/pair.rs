//! A queue pair as the proxy sees it: software's rings on one side, a verbs queue pair on the other.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use verbs::{Buffer, CompletionQueue, Init, MemoryRegion, QueuePair, Rts, State};

use crate::hca::Endpoint;
use crate::hca::completer::{Completer, Mark, NoPlace};
use crate::hca::port::Room;
use crate::hca::rings::{ReceiveSide, SendSide};
use crate::wire::{Completion, Event, Failed, Syndrome};

#[derive(Debug)]
pub(super) struct Pair {
    /// Destroyed before the completion queues that it completes into.
    pub link: Link,
    pub sent: CompletionQueue,
    pub received: CompletionQueue,
    pub endpoint: Endpoint,
    /// The remote side's number, once it is connected.
    pub peer: u32,
    pub room: Room,
    pub send: SendSide,
    pub receive: ReceiveSide,
    pub completers: [Completer; 2],
    pub bounce: Bounce,
    /// What was taken from the send ring and has not ended.
    pub sends: VecDeque<InFlight>,
    /// Requests that verbs have and have not completed.
    pub posted: u32,
    /// Number of the next request to verbs.
    pub next: u64,
    /// An entry was taken that ends in an error whatever becomes of those before it: nothing more is taken.
    pub halted: bool,
    /// Counters of the receives that verbs have, in order.
    pub receives: VecDeque<u16>,
    /// A receive that verbs cannot have; none is taken behind it.
    pub unusable: Option<(u16, Syndrome)>,
    /// Something ended in an error: all else is given up.
    pub broken: bool,
    /// All is given up, and so is what comes.
    pub failed: bool,
    /// Completions so far: what their time stamps are.
    pub clock: u64,
}

/// The verbs queue pair.
#[derive(Debug)]
pub(super) enum Link {
    /// It takes receives.
    Init(QueuePair<Init>),
    /// Somebody connects it.
    Connecting,
    /// It sends.
    Ready(QueuePair<Rts>),
    /// A program brings it from state to state, and destroys it.
    Borrowed(Borrowed),
    /// It is destroyed.
    Gone,
}

/// A queue pair that a program has lent, and what it was seen to take.
#[derive(Debug)]
pub(super) struct Borrowed {
    pub pair: QueuePair<verbs::Borrowed>,
    seen: State,
    asked: Option<Instant>,
}

/// How often the device is asked what it takes, until it takes everything.
const ASK: Duration = Duration::from_millis(1);

impl Borrowed {
    pub(super) fn new(pair: QueuePair<verbs::Borrowed>) -> Self {
        Self {
            pair,
            seen: State::Reset,
            asked: None,
        }
    }

    /// It may have changed: the device is asked at the next need.
    pub(super) fn look_again(&mut self) {
        self.asked = None;
    }

    /// Whether it takes requests to receive.
    pub(super) fn receives(&mut self) -> Result<bool, verbs::Error> {
        Ok(self.seen != State::Reset || self.ask()? != State::Reset)
    }

    /// Whether it takes requests to send.
    pub(super) fn sends(&mut self) -> Result<bool, verbs::Error> {
        Ok(self.seen == State::Sends || self.ask()? == State::Sends)
    }

    fn ask(&mut self) -> Result<State, verbs::Error> {
        if self.asked.is_none_or(|asked| asked.elapsed() >= ASK) {
            self.asked = Some(Instant::now());
            self.seen = self.pair.state()?;
        }
        Ok(self.seen)
    }
}

/// Registered memory for the bytes that entries hold themselves, at the same place as in the ring: it is free when the entry's
/// blocks are. Behind the end there is room for an entry that wraps.
#[derive(Debug)]
pub(super) struct Bounce {
    pub region: MemoryRegion,
    pub buffer: Buffer,
}

/// An entry that was taken from the send ring.
#[derive(Debug)]
pub(super) struct InFlight {
    /// Its number with verbs, which count those that are posted and those that are not.
    pub id: u64,
    pub counter: u16,
    pub opcode: u8,
    pub signalled: bool,
    /// Bytes that it brings here.
    pub brings: u32,
    pub verdict: Option<Result<(), (Syndrome, u8)>>,
    pub posted: bool,
}

/// What is given up ends so; no NIC has said anything of it.
pub(super) const FLUSHED: (Syndrome, u8) = (Syndrome::Flushed, 0);

impl Pair {
    /// Completes what has ended, in order: a success where it is signalled, an error in any case.
    pub(super) fn retire(&mut self) {
        while let Some(verdict) = self.sends.front().and_then(|first| first.verdict) {
            let Some(first) = self.sends.pop_front() else {
                return;
            };
            if first.posted {
                self.posted = self.posted.saturating_sub(1);
            }
            // What never went to verbs succeeds after all before it, or not at all.
            let verdict = verdict.and(if self.broken && !first.posted {
                Err(FLUSHED)
            } else {
                Ok(())
            });
            match verdict {
                Err((syndrome, vendor)) => {
                    self.broken = true;
                    self.send_failed(first.counter, first.opcode, syndrome, vendor);
                }
                Ok(()) if first.signalled => {
                    let event = Event::Sent {
                        opcode: first.opcode,
                    };
                    let mut completion = Completion::new(event, self.endpoint.qpn, first.counter);
                    completion.bytes = first.brings;
                    self.complete(0, completion);
                }
                Ok(()) => {}
            }
        }
    }

    /// An entry of the send ring failed.
    pub(super) fn send_failed(&mut self, counter: u16, opcode: u8, syndrome: Syndrome, vendor: u8) {
        let failed = Failed {
            syndrome,
            vendor,
            opcode,
        };
        let event = Event::SendFailed(failed);
        self.complete(0, Completion::new(event, self.endpoint.qpn, counter));
    }

    /// An entry of the receive ring failed.
    pub(super) fn receive_failed(&mut self, counter: u16, syndrome: Syndrome, vendor: u8) {
        let failed = Failed {
            syndrome,
            vendor,
            opcode: 0,
        };
        let event = Event::ReceiveFailed(failed);
        self.complete(1, Completion::new(event, self.endpoint.qpn, counter));
    }

    /// A message arrived for a receive.
    pub(super) fn arrived(&mut self, counter: u16, event: Event, bytes: u32) {
        let mut completion = Completion::new(event, self.endpoint.qpn, counter);
        completion.bytes = bytes;
        completion.source = self.peer;
        self.complete(1, completion);
    }

    /// Writes a completion, of sends (0) or of receives (1). A queue without a place for it is an overrun, as with a NIC.
    fn complete(&mut self, side: usize, mut completion: Completion) {
        self.clock += 1;
        if completion.event.failed().is_none() {
            completion.timestamp = self.clock;
        }
        let Some(completer) = self.completers.get_mut(side) else {
            return;
        };
        if let Err(NoPlace) = completer.write(&completion, Mark::Well) {
            self.broken = true;
        }
    }
}
