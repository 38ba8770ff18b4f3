//! A queue pair as the HCA sees it: where its queues lie, and how far it is.

use std::time::Instant;

use super::completer::Completer;
use crate::hca::rings::{ReceiveSide, SendSide};
use crate::hca::{Endpoint, RetryPolicy};
use crate::wire::Decoded;

pub(super) use super::completer::Mark;
pub(super) use crate::hca::rings::brings;

#[derive(Debug)]
pub(super) struct Pair {
    pub qpn: u32,
    pub send: SendSide,
    pub receive: ReceiveSide,
    pub send_completions: Completer,
    pub receive_completions: Completer,
    pub peer: Option<Endpoint>,
    pub timeout: RetryPolicy,
    /// It failed: everything is given up.
    pub failed: bool,
    /// The request that waits for its answer.
    pub in_flight: Option<InFlight>,
    /// Why it does not go on.
    pub stall: Option<Stall>,
    /// The entry at the cursor has been counted by those who inject.
    pub begun: Option<Begun>,
    /// Number of the last request.
    pub sequence: u64,
    /// Completions its send queue has had, written or not.
    pub completed: u64,
}

/// What was injected for the entry at the cursor.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Begun {
    pub fail: Option<(crate::wire::Syndrome, u8)>,
    pub mark: Mark,
    /// How often it met nothing posted.
    pub retries: u32,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct InFlight {
    pub decoded: Decoded,
    pub sequence: u64,
}

/// Why a queue pair does not go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stall {
    Until(Instant),
    /// Until another one's send queue has had so many completions.
    Completions {
        qpn: u32,
        count: u64,
    },
}

impl Pair {
    /// From now on it sends, and answers `far`.
    pub(super) fn connect(&mut self, peer: Endpoint, timeout: RetryPolicy) {
        self.peer = Some(peer);
        self.timeout = timeout;
    }
}
