//! The HCA's part of a completion queue.

use crate::MappedMemory;
use crate::wire::{BLOCK, Completion, Depth, WATCHED, consumer_of};

#[derive(Debug)]
pub(in crate::hca) struct Completer {
    pub ring: MappedMemory,
    pub record: MappedMemory,
    pub depth: Depth,
    /// Number of CQEs so far, modulo 2^32.
    pub producer: u32,
}

/// How to write a CQE; all but `Valid` simulate faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::hca) enum Mark {
    #[default]
    Valid,
    /// Not written and not counted.
    Never,
    /// Written with the owner bit of the other pass.
    WrongOwner,
    /// Counted but not written.
    Stale,
}

/// The completion queue is full or not accessible.
#[derive(Debug)]
pub(in crate::hca) struct NoPlace;

impl Completer {
    /// Writes a CQE, the polled word last: once the owner bit is visible, so is the rest.
    pub(in crate::hca) fn write(
        &mut self,
        completion: &Completion,
        mark: Mark,
    ) -> Result<(), NoPlace> {
        if mark == Mark::Never {
            return Ok(());
        }
        let n = self.producer;
        let polled = self.record.load_u32(0).map(consumer_of).map_err(|_| NoPlace)?;
        // The record has 24 bits.
        if n.wrapping_sub(polled) & 0xff_ffff >= self.depth.entries() {
            return Err(NoPlace);
        }
        self.producer = n.wrapping_add(1);
        if mark == Mark::Stale {
            return Ok(());
        }
        let owner = self.depth.parity(n) != (mark == Mark::WrongOwner);
        let bytes = completion.encode(owner);
        let slot = self.depth.slot(n) as usize * BLOCK;
        if let Some((first, word)) = bytes.split_last_chunk() {
            let written = self.ring.write(slot, first);
            let published = self.ring.store_u32(slot + WATCHED, u32::from_ne_bytes(*word));
            written.and(published).map_err(|_| NoPlace)?;
        }
        Ok(())
    }
}
