//! A queue pair as the HCA sees it: where its queues lie, and how far it is.

use std::time::Instant;

use super::completer::Completer;
use crate::hca::{Endpoint, Patience};
use crate::wire::{BLOCK, DataSegment, Decoded, Depth, Operation, decode_receive, producer_of};
use crate::{Error, Place};

/// A queue pair.
#[derive(Debug)]
pub(super) struct Pair {
    pub qpn: u32,
    pub send: SendSide,
    pub receive: ReceiveSide,
    pub send_completions: Completer,
    pub receive_completions: Completer,
    pub far: Option<Endpoint>,
    pub patience: Patience,
    /// It failed: everything is given up.
    pub failed: bool,
    /// The request that waits for its answer.
    pub under_way: Option<UnderWay>,
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

/// How its completion is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mark {
    #[default]
    Well,
    Never,
    WrongOwner,
    Stale,
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct UnderWay {
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

/// The send queue, as it is read.
#[derive(Debug)]
pub(super) struct SendSide {
    pub ring: Place,
    pub record: Place,
    pub register: Place,
    pub depth: Depth,
    /// The block that is next.
    pub cursor: u16,
    /// Up to which block doorbells have been rung.
    pub producer: u16,
}

/// The receive queue, as it is read.
#[derive(Debug)]
pub(super) struct ReceiveSide {
    pub ring: Place,
    pub record: Place,
    pub depth: Depth,
    pub stride: usize,
    /// The entry that is next.
    pub cursor: u16,
}

impl Pair {
    /// From now on it sends, and answers `far`.
    pub(super) fn connect(&mut self, far: Endpoint, patience: Patience) {
        self.far = Some(far);
        self.patience = patience;
    }
}

impl SendSide {
    /// `count` blocks from the cursor on.
    pub(super) fn blocks(&self, count: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; count * BLOCK];
        for (position, block) in bytes.chunks_exact_mut(BLOCK).enumerate() {
            let slot = self.depth.slot(u32::from(self.cursor) + position as u32);
            self.ring.read(slot as usize * BLOCK, block)?;
        }
        Ok(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cursor == self.producer
    }

    /// Blocks that were rung for and not taken.
    pub(super) fn left(&self) -> u16 {
        self.producer.wrapping_sub(self.cursor)
    }
}

impl ReceiveSide {
    /// Whether an entry is posted.
    pub(super) fn is_posted(&self) -> bool {
        let producer = self.record.load_u32(0).map(producer_of);
        producer.is_ok_and(|producer| self.depth.free(producer, self.cursor) < self.depth.entries())
    }

    /// The posted entry: its counter and segments. It is taken, also where it cannot be read.
    pub(super) fn take(&mut self) -> (u16, Result<Vec<DataSegment>, Error>) {
        let counter = self.cursor;
        self.cursor = counter.wrapping_add(1);
        let mut bytes = vec![0; self.stride];
        let slot = self.depth.slot(counter.into()) as usize;
        let read = self.ring.read(slot * self.stride, &mut bytes);
        (counter, read.and_then(|()| Ok(decode_receive(&bytes)?)))
    }
}

/// What a requester brings here.
pub(super) fn brings(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
    )
}
