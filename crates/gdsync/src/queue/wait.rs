//! A stream's wait for a completion.

use gpu::{Compare, MemOp};

use super::on_stream;
use crate::wire::Watch;
use crate::{Error, Place};

/// The wait for one completion, and the word that says that it is over. It is given to a stream, or abandoned; forgotten, the CPU
/// never polls that completion.
#[derive(Debug, Clone)]
#[must_use = "the CPU does not poll what is waited for until the wait is over"]
pub struct Wait {
    pub(super) index: u32,
    pub(super) word: Place,
    pub(super) watch: Watch,
    pub(super) busy: Place,
}

impl Wait {
    /// Which completion of its queue, counted from 0.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The watched word, at offset 0 of its place.
    #[must_use]
    pub fn word(&self) -> &Place {
        &self.word
    }

    /// What the word is compared with, and how.
    #[must_use]
    pub fn condition(&self) -> (u32, Compare) {
        match self.watch {
            Watch::And(value) => (value, Compare::And),
            Watch::Nor(value) => (value, Compare::Nor),
            Watch::Geq(value) => (value, Compare::Geq),
        }
    }

    /// The busy word, at offset 0 of its place: 1 until the wait is over, and then 0.
    #[must_use]
    pub fn busy(&self) -> &Place {
        &self.busy
    }

    /// The wait, then the write that lets the CPU poll.
    ///
    /// `flush` flushes remote writes after the wait: on GPUs that can, and whose order of remote writes does not cover themselves.
    #[must_use]
    pub fn ops(&self, flush: bool) -> [MemOp<Place>; 2] {
        let (value, compare) = self.condition();
        let wait = MemOp::Wait32 {
            at: self.word.clone(),
            value,
            compare,
            flush,
        };
        let at = self.busy.clone();
        [wait, MemOp::Write32 { at, value: 0 }]
    }

    /// [`Self::ops`] for a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] for places that the GPU does not reach.
    pub fn operations(&self, flush: bool) -> Result<[MemOp; 2], Error> {
        let [wait, busy] = self.ops(flush).map(on_stream);
        Ok([wait?, busy?])
    }

    /// Whether its completion has been written.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] or [`Error::Mapping`], which the words of a queue do not meet.
    pub fn is_over(&self) -> Result<bool, Error> {
        Ok(self.watch.holds(self.word.load_u32(0)?))
    }

    /// No stream will wait: the CPU may poll the completion.
    ///
    /// # Errors
    ///
    /// As [`Self::is_over`].
    pub fn abandon(self) -> Result<(), Error> {
        self.busy.store_u32(0, 0)
    }
}
