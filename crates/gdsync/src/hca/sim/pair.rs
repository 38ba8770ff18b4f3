//! The HCA's state of a queue pair.

use std::time::Instant;

use super::completer::Completer;
use crate::hca::rings::{ReceiveSide, SendSide};
use crate::hca::{Endpoint, RetryPolicy};
use crate::wire::{Decoded, Transport};

pub(super) use super::completer::Mark;
pub(super) use crate::hca::rings::brings;

#[derive(Debug)]
pub(super) struct SimQueuePair {
    pub qpn: u32,
    pub transport: Transport,
    /// The Q_Key of datagrams.
    pub key: u32,
    pub send: SendSide,
    pub receive: ReceiveSide,
    pub send_completions: Completer,
    pub receive_completions: Completer,
    pub peer: Option<Endpoint>,
    pub timeout: RetryPolicy,
    /// Failed: all work is flushed.
    pub failed: bool,
    /// The request without an answer.
    pub in_flight: Option<InFlight>,
    /// Why it pauses.
    pub stall: Option<Stall>,
    /// Set once the WQE at the cursor has started.
    pub attempt: Option<Attempt>,
    /// Number of the last request.
    pub sequence: u64,
    /// Number of the last request of the remote side.
    pub answered: u64,
    /// CQEs of the send queue, written or not.
    pub completed: u64,
}

/// Injected faults and retries of the WQE at the cursor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attempt {
    pub fail: Option<(crate::wire::Syndrome, u8)>,
    pub mark: Mark,
    /// RNR retries so far.
    pub retries: u32,
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct InFlight {
    pub decoded: Decoded,
    pub sequence: u64,
}

/// Why a queue pair pauses.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stall {
    Until(Instant),
    /// Until another send queue has had `count` CQEs.
    Completions {
        qpn: u32,
        count: u64,
    },
}

impl SimQueuePair {
    pub(super) fn connect(&mut self, peer: Endpoint, timeout: RetryPolicy) {
        self.peer = Some(peer);
        self.timeout = timeout;
    }
}
