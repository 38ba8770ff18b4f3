//! The completion queue: what the CPU polls, and streams wait for.

use super::{Wait, fits};
use crate::wire::{
    BLOCK, Completion, Depth, INITIAL_OWNER, WATCHED, Watch, completion_record, owner_of, rearmed,
};
use crate::{Error, Place};

/// Where a completion queue lies.
#[derive(Debug, Clone)]
pub struct CompletionParts {
    /// Entries: a power of two, at most 2^23.
    pub entries: u32,
    /// The ring: 64 bytes an entry.
    pub ring: Place,
    /// The doorbell record: 4 bytes.
    pub record: Place,
    /// A busy word for each wait: 4 bytes an entry, in memory that the GPU reaches.
    pub busy: Place,
    /// How streams wait.
    pub waiting: Waiting,
}

/// What streams compare the owner bit by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Waiting {
    /// AND in odd passes, NOR in even ones: also an error ends a wait.
    #[default]
    Nor,
    /// AND and GEQ, for GPUs before Volta: in even passes an error ends no wait, and slots are re-armed as they are polled.
    WithoutNor,
}

/// A completion queue, polled by the CPU in order. A completion that a stream waits for is polled after the stream has seen it:
/// else its slot could be written again, with the other owner bit, before the GPU looks.
///
/// A completion is either polled before a wait for it is taken, and then the next wait is for the one after it, or a wait is taken first.
#[derive(Debug)]
pub struct CompletionQueue {
    parts: CompletionParts,
    depth: Depth,
    /// The next to be polled, counted from 0 (modulo 2^32, of which every depth is a divisor).
    consumer: u32,
    /// The next to be waited for, likewise; never behind `consumer`.
    waited: u32,
    /// The watched word of each slot as it was polled last: one that changed and is of another pass is an overrun.
    seen: Vec<u32>,
}

impl CompletionQueue {
    /// An empty queue: every slot is marked as never written ([`INITIAL_OWNER`]), so this comes before the first entry is rung.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for a depth that is none; [`Error::Size`] for places of another size.
    pub fn new(parts: CompletionParts) -> Result<Self, Error> {
        let depth = Depth::completions(parts.entries)?;
        let entries = parts.entries as usize;
        fits("a completion queue", &parts.ring, entries * BLOCK)?;
        fits("a doorbell record", &parts.record, 4)?;
        fits(
            "the busy words of a completion queue",
            &parts.busy,
            entries * 4,
        )?;
        let initial = u32::from_ne_bytes([0, 0, 0, INITIAL_OWNER]);
        for slot in 0..entries {
            parts.ring.store_u32(slot * BLOCK + WATCHED, initial)?;
            parts.busy.store_u32(slot * 4, 0)?;
        }
        parts.record.store_u32(0, completion_record(0))?;
        Ok(Self {
            parts,
            depth,
            consumer: 0,
            waited: 0,
            seen: vec![initial; entries],
        })
    }

    /// Where it lies.
    #[must_use]
    pub fn parts(&self) -> &CompletionParts {
        &self.parts
    }

    /// Entries.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.depth.entries()
    }

    /// Which completion is polled next, counted from 0.
    #[must_use]
    pub fn consumer(&self) -> u32 {
        self.consumer
    }

    /// The wait for the next completion that nobody waits for yet. From now on the CPU does not poll that completion until
    /// the wait is over or [abandoned](Wait::abandon).
    ///
    /// # Errors
    ///
    /// [`Error::WaitsFull`].
    pub fn take_wait(&mut self) -> Result<Wait, Error> {
        let (n, entries) = (self.waited, self.depth.entries());
        if n.wrapping_sub(self.consumer) >= entries {
            return Err(Error::WaitsFull { entries });
        }
        let slot = self.slot(n);
        let busy = self.parts.busy.part(slot * 4, 4)?;
        busy.store_u32(0, 1)?;
        self.waited = n.wrapping_add(1);
        Ok(Wait {
            index: n,
            word: self.parts.ring.part(slot * BLOCK + WATCHED, 4)?,
            watch: self.watch(n),
            busy,
        })
    }

    /// The next completion, if there is one and no stream still waits for it. What was polled may be overwritten by the NIC.
    ///
    /// # Errors
    ///
    /// [`Error::Overrun`]; [`Error::Wire`] for an entry that is written and is none, which stays the next.
    pub fn poll(&mut self) -> Result<Option<Completion>, Error> {
        let n = self.consumer;
        if self.is_waited(n)? {
            return Ok(None);
        }
        let Some((completion, word)) = self.look(n)? else {
            return Ok(None);
        };
        let slot = self.slot(n);
        self.remember(slot, word);
        if self.parts.waiting == Waiting::WithoutNor {
            let word = rearmed(self.depth.parity(n));
            self.parts.ring.store_u32(slot * BLOCK + WATCHED, word)?;
            self.remember(slot, word);
        }
        self.consumer = n.wrapping_add(1);
        if self.waited == n {
            self.waited = self.consumer;
        }
        self.parts
            .record
            .store_u32(0, completion_record(self.consumer))?;
        Ok(Some(completion))
    }

    /// The next completion also where a stream still waits for it, which stays the next: what a watchdog wants to know.
    ///
    /// # Errors
    ///
    /// As [`Self::poll`].
    pub fn peek(&self) -> Result<Option<Completion>, Error> {
        Ok(self.look(self.consumer)?.map(|(completion, _)| completion))
    }

    /// Whether a stream has a wait for the next completion and is not known to have seen it.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] or [`Error::Mapping`], which the words of a queue do not meet.
    pub fn is_held(&self) -> Result<bool, Error> {
        self.is_waited(self.consumer)
    }

    /// The `n`th completion, and the watched word it came with.
    fn look(&self, n: u32) -> Result<Option<(Completion, u32)>, Error> {
        let slot = self.slot(n);
        // The word first: the NIC writes it last.
        let word = self.parts.ring.load_u32(slot * BLOCK + WATCHED)?;
        let mut bytes = [0; BLOCK];
        self.parts.ring.read(slot * BLOCK, &mut bytes)?;
        for (to, from) in bytes.iter_mut().skip(WATCHED).zip(word.to_ne_bytes()) {
            *to = from;
        }
        if self.depth.is_written(n, owner_of(&bytes)) {
            return Ok(Some((Completion::decode(&bytes)?, word)));
        }
        let unwritten = owner_of(&bytes) >> 4 == INITIAL_OWNER >> 4;
        if unwritten || self.seen.get(slot) == Some(&word) {
            return Ok(None);
        }
        let entries = self.depth.entries();
        Err(Error::Overrun { index: n, entries })
    }

    fn is_waited(&self, n: u32) -> Result<bool, Error> {
        Ok(n != self.waited && self.parts.busy.load_u32(self.slot(n) * 4)? != 0)
    }

    fn watch(&self, n: u32) -> Watch {
        match self.parts.waiting {
            Waiting::Nor => self.depth.watch(n),
            Waiting::WithoutNor => self.depth.watch_without_nor(n),
        }
    }

    /// As after so many completions, with what their slots held.
    #[cfg(test)]
    pub(super) fn aged(&mut self, completions: u32, seen: Vec<u32>) {
        (self.consumer, self.waited, self.seen) = (completions, completions, seen);
    }

    fn remember(&mut self, slot: usize, word: u32) {
        if let Some(seen) = self.seen.get_mut(slot) {
            *seen = word;
        }
    }

    fn slot(&self, n: u32) -> usize {
        self.depth.slot(n) as usize
    }
}
