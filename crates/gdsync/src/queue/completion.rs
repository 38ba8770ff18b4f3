//! The completion queue, polled by the CPU and waited for by streams.

use super::{Wait, fits};
use crate::wire::{
    BLOCK, Completion, Depth, INITIAL_OWNER, WATCHED, Watch, completion_record, owner_of, rearmed,
};
use crate::{Error, MappedMemory};

/// Memory of a completion queue.
#[derive(Debug, Clone)]
pub struct CompletionParts {
    /// Number of CQEs: a power of two, at most 2^23.
    pub entries: u32,
    /// The ring: 64 bytes per CQE.
    pub ring: MappedMemory,
    /// The doorbell record: 4 bytes.
    pub record: MappedMemory,
    /// A busy word per CQE, 4 bytes each, in memory that the GPU can access.
    pub busy: MappedMemory,
    /// How streams wait.
    pub waiting: Waiting,
}

/// How streams compare the owner bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Waiting {
    /// AND in odd passes, NOR in even ones. An error CQE ends a wait too.
    #[default]
    Nor,
    /// AND and GEQ, for GPUs before Volta. In even passes an error CQE ends no wait, and polling re-arms slots.
    WithoutNor,
}

/// A completion queue, polled by the CPU in order. The CPU polls a completion only after the stream that waits for it has
/// seen it: otherwise the NIC could overwrite the slot, with the other owner bit, before the GPU reads it.
///
/// The next wait is for the first completion that is neither polled nor waited for.
#[derive(Debug)]
pub struct CompletionQueue {
    parts: CompletionParts,
    depth: Depth,
    /// Index of the next completion to poll, modulo 2^32 (a multiple of every depth).
    consumer: u32,
    /// Index of the next completion to wait for; never behind `consumer`.
    waited: u32,
    /// The polled word of each slot at its last poll. Another value of another pass is an overrun.
    seen: Vec<u32>,
}

impl CompletionQueue {
    /// An empty queue. Marks every slot as unwritten ([`INITIAL_OWNER`]), so call it before the first doorbell.
    ///
    /// # Errors
    ///
    /// [`Error::Wire`] for an invalid depth; [`Error::Size`] for places of another size.
    pub fn new(parts: CompletionParts) -> Result<Self, Error> {
        let depth = Depth::completions(parts.entries)?;
        let entries = parts.entries as usize;
        fits("a completion queue", &parts.ring, entries * BLOCK)?;
        fits("a doorbell record", &parts.record, 4)?;
        fits("the busy words of a completion queue", &parts.busy, entries * 4)?;
        let initial = u32::from_ne_bytes([0, 0, 0, INITIAL_OWNER]);
        for slot in 0..entries {
            parts.ring.store_u32(slot * BLOCK + WATCHED, initial)?;
            parts.busy.store_u32(slot * 4, 0)?;
        }
        parts.record.store_u32(0, completion_record(0))?;
        Ok(Self { parts, depth, consumer: 0, waited: 0, seen: vec![initial; entries] })
    }

    /// Its memory.
    #[must_use]
    pub fn parts(&self) -> &CompletionParts {
        &self.parts
    }

    /// Number of CQEs.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.depth.entries()
    }

    /// Index of the next completion to poll, from 0.
    #[must_use]
    pub fn consumer(&self) -> u32 {
        self.consumer
    }

    /// The wait for the next completion without one. The CPU does not poll that completion until the wait is over or
    /// [abandoned](Wait::abandon).
    ///
    /// # Errors
    ///
    /// [`Error::WaitsFull`].
    pub fn take_wait(&mut self) -> Result<Wait, Error> {
        self.take_wait_for(self.waited)
    }

    /// The wait for completion `n`, counted from 0 modulo 2^32, which is neither polled nor waited for. Completions before it that
    /// have no wait stay pollable.
    ///
    /// # Errors
    ///
    /// [`Error::WaitsFull`], also for a polled completion; [`Error::Waited`].
    pub fn take_wait_for(&mut self, n: u32) -> Result<Wait, Error> {
        let entries = self.depth.entries();
        if n.wrapping_sub(self.consumer) >= entries {
            return Err(Error::WaitsFull { entries });
        }
        let slot = self.slot(n);
        let busy = self.parts.busy.part(slot * 4, 4)?;
        if busy.load_u32(0)? != 0 {
            return Err(Error::Waited { index: n });
        }
        busy.store_u32(0, 1)?;
        let next = n.wrapping_add(1);
        if next.wrapping_sub(self.consumer) > self.waited.wrapping_sub(self.consumer) {
            self.waited = next;
        }
        Ok(Wait {
            index: n,
            word: self.parts.ring.part(slot * BLOCK + WATCHED, 4)?,
            watch: self.watch(n),
            busy,
        })
    }

    /// The next completion, if it is written and no stream still waits for it. The NIC may then overwrite its slot.
    ///
    /// # Errors
    ///
    /// [`Error::Overrun`]; [`Error::Wire`] for a malformed CQE, which is not consumed.
    #[inline]
    pub fn poll(&mut self) -> Result<Option<Completion>, Error> {
        // Most polls end here.
        match self.new_word(self.consumer)? {
            Some(word) => self.take(word),
            None => Ok(None),
        }
    }

    /// Takes the next completion, whose word has changed.
    fn take(&mut self, word: u32) -> Result<Option<Completion>, Error> {
        let n = self.consumer;
        if self.is_waited(n)? {
            return Ok(None);
        }
        let Some(completion) = self.read(n, word)? else {
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
        self.parts.record.store_u32(0, completion_record(self.consumer))?;
        Ok(Some(completion))
    }

    /// The next completion, even if a stream still waits for it. Does not consume it.
    ///
    /// # Errors
    ///
    /// As [`Self::poll`].
    pub fn peek(&self) -> Result<Option<Completion>, Error> {
        match self.new_word(self.consumer)? {
            Some(word) => self.read(self.consumer, word),
            None => Ok(None),
        }
    }

    /// If false, [`Self::poll`] and [`Self::peek`] would return `None`. It compares one word.
    ///
    /// # Errors
    ///
    /// As [`Self::is_held`].
    #[inline]
    pub fn may_have_next(&self) -> Result<bool, Error> {
        Ok(self.new_word(self.consumer)?.is_some())
    }

    /// True if a stream has a wait for the next completion that is not over.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] or [`Error::Mapping`], not for aligned words such as these.
    pub fn is_held(&self) -> Result<bool, Error> {
        self.is_waited(self.consumer)
    }

    /// The polled word of the `n`th completion, if it has changed: the owner bit of a new CQE differs from that of the one before in
    /// its slot.
    #[inline]
    fn new_word(&self, n: u32) -> Result<Option<u32>, Error> {
        let slot = self.slot(n);
        let word = self.parts.ring.load_u32(slot * BLOCK + WATCHED)?;
        Ok((self.seen.get(slot) != Some(&word)).then_some(word))
    }

    /// The `n`th completion, if it is written. The word was read first: the NIC writes it last.
    fn read(&self, n: u32, word: u32) -> Result<Option<Completion>, Error> {
        let slot = self.slot(n);
        let mut bytes = [0; BLOCK];
        self.parts.ring.read(slot * BLOCK, &mut bytes)?;
        for (to, from) in bytes.iter_mut().skip(WATCHED).zip(word.to_ne_bytes()) {
            *to = from;
        }
        if self.depth.is_written(n, owner_of(&bytes)) {
            return Ok(Some(Completion::decode(&bytes)?));
        }
        if owner_of(&bytes) >> 4 == INITIAL_OWNER >> 4 {
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

    /// Sets the state after `completions` completions.
    #[cfg(test)]
    pub(super) fn advance_to(&mut self, completions: u32, seen: Vec<u32>) {
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
