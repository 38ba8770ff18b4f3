//! A stream's wait for a completion.

use gpu::{Compare, MemOp};

use super::on_stream;
use crate::wire::Watch;
use crate::{Error, MappedMemory};

/// The wait for one completion. Post it to a stream or abandon it: until then the CPU does not poll that completion.
#[derive(Debug, Clone)]
#[must_use = "the CPU does not poll the completion until the wait is over or abandoned"]
pub struct Wait {
    pub(super) index: u32,
    pub(super) word: MappedMemory,
    pub(super) watch: Watch,
    pub(super) busy: MappedMemory,
}

impl Wait {
    /// Index of the completion in its queue, from 0.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The polled word, at offset 0 of its place.
    #[must_use]
    pub fn word(&self) -> &MappedMemory {
        &self.word
    }

    /// The comparison and its right-hand side.
    #[must_use]
    pub fn condition(&self) -> (u32, Compare) {
        match self.watch {
            Watch::And(value) => (value, Compare::And),
            Watch::Nor(value) => (value, Compare::Nor),
            Watch::Geq(value) => (value, Compare::Geq),
        }
    }

    /// The busy word, at offset 0 of its place: 1 until the wait is over, then 0.
    #[must_use]
    pub fn busy(&self) -> &MappedMemory {
        &self.busy
    }

    /// The wait, then the write of the busy word that lets the CPU poll.
    ///
    /// `flush` flushes remote writes after the wait, for GPUs that support it and do not order those writes themselves.
    #[must_use]
    pub fn ops(&self, flush: bool) -> [MemOp<MappedMemory>; 2] {
        let (value, compare) = self.condition();
        let wait = MemOp::Wait32 { at: self.word.clone(), value, compare, flush };
        let at = self.busy.clone();
        [wait, MemOp::Write32 { at, value: 0 }]
    }

    /// [`Self::ops`] for a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] for places that the GPU cannot access.
    pub fn operations(&self, flush: bool) -> Result<[MemOp; 2], Error> {
        let [wait, busy] = self.ops(flush).map(on_stream);
        Ok([wait?, busy?])
    }

    /// True if its completion is written.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] or [`Error::Mapping`], not for aligned words such as these.
    pub fn is_over(&self) -> Result<bool, Error> {
        Ok(self.watch.holds(self.word.load_u32(0)?))
    }

    /// Ends the wait without a stream: the CPU may poll the completion.
    ///
    /// # Errors
    ///
    /// As [`Self::is_over`].
    pub fn abandon(self) -> Result<(), Error> {
        self.busy.store_u32(0, 0)
    }
}
