//! Credits: a rank tells a peer that a receive is posted, and the peer waits for that before it sends. The handshake of libmp's comm
//! library.
//!
//! Each rank has a table of counters, one for each peer. A rank that has posted a receive increments its own counter at the peer, by an
//! inline put without a completion; the peer waits until the counter is the next one.

use std::sync::atomic::{AtomicU32, Ordering};

use gdsync::{MappedMemory, MemoryLocation};
use gpu::Compare;

use crate::stream::Stream;
use crate::{Communicator, Condition, Error, Region, Request, Transfer, Window};

/// Counters of a rank and its peers.
#[derive(Debug)]
pub struct Credits {
    /// Counters that peers write, by rank, and behind them the values to put, by rank.
    table: MappedMemory,
    region: Region,
    window: Window,
    rank: u32,
    size: usize,
    /// Credits that this rank has given, by rank.
    given: Vec<AtomicU32>,
    /// Credits that this rank has taken, by rank.
    taken: Vec<AtomicU32>,
}

impl Credits {
    /// Creates the table. Every rank calls it.
    ///
    /// # Errors
    ///
    /// As [`Communicator::window`].
    pub fn new(ranks: &Communicator) -> Result<Self, Error> {
        let size = ranks.size() as usize;
        let allocator = ranks.allocator();
        let table = allocator.place(MemoryLocation::Host, (2 * size * 4).max(4096))?;
        let region = ranks.register(&table)?;
        let window = ranks.window(&region)?;
        let counters = || (0..size).map(|_| AtomicU32::new(0)).collect();
        Ok(Self {
            table,
            region,
            window,
            rank: ranks.rank(),
            size,
            given: counters(),
            taken: counters(),
        })
    }

    /// Tells a peer that one more receive is posted for it.
    ///
    /// # Errors
    ///
    /// As [`Communicator::start`].
    pub fn give(&self, ranks: &Communicator, peer: u32) -> Result<Request, Error> {
        self.put(peer, |put| ranks.start(&put.clone().without_completion()))
    }

    /// [`Self::give`] when a stream reaches it. The request has a completion.
    ///
    /// # Errors
    ///
    /// As [`Communicator::start_on`].
    pub fn give_on(
        &self,
        ranks: &Communicator,
        stream: &dyn Stream,
        peer: u32,
    ) -> Result<Request, Error> {
        self.put(peer, |put| ranks.start_on(stream, put))
    }

    /// Waits for the next credit of a peer, and takes it.
    ///
    /// # Errors
    ///
    /// [`Error::Word`] after the communicator's timeout; [`Error::NoPeer`].
    pub fn take(&self, ranks: &Communicator, peer: u32) -> Result<(), Error> {
        let (word, condition) = self.next(peer)?;
        condition.wait(ranks.timeout(), || word.load_u32(0).unwrap_or(0))?;
        self.took(peer);
        Ok(())
    }

    /// Takes the next credit of a peer, if it is there.
    ///
    /// # Errors
    ///
    /// [`Error::NoPeer`].
    pub fn try_take(&self, peer: u32) -> Result<bool, Error> {
        let (word, Condition { compare, value }) = self.next(peer)?;
        let is_here = compare.holds32(word.load_u32(0)?, value);
        if is_here {
            self.took(peer);
        }
        Ok(is_here)
    }

    /// Makes a stream wait for the next credit of a peer, and takes it.
    ///
    /// # Errors
    ///
    /// As [`Communicator::wait_word_on`].
    pub fn take_on(
        &self,
        ranks: &Communicator,
        stream: &dyn Stream,
        peer: u32,
    ) -> Result<(), Error> {
        let (word, condition) = self.next(peer)?;
        ranks.wait_word_on(stream, &word, condition)?;
        self.took(peer);
        Ok(())
    }

    /// Takes the next credit of a peer for a kernel, which waits for this word.
    ///
    /// # Errors
    ///
    /// [`Error::NoPeer`].
    pub fn take_by_kernel(&self, peer: u32) -> Result<(MappedMemory, Condition), Error> {
        let next = self.next(peer)?;
        self.took(peer);
        Ok(next)
    }

    fn put(
        &self,
        peer: u32,
        start: impl FnOnce(&Transfer<'_>) -> Result<Request, Error>,
    ) -> Result<Request, Error> {
        let given = self.given.get(peer as usize);
        let given = given.ok_or(Error::NoPeer { rank: peer })?;
        let at = (self.size + peer as usize) * 4;
        let value = given.load(Ordering::Relaxed).wrapping_add(1);
        self.table.store_u32(at, value)?;
        let own = u64::from(self.rank) * 4;
        let put = Transfer::put(peer, &self.window, own, &self.region, at..at + 4);
        let request = start(&put.inline())?;
        given.store(value, Ordering::Relaxed);
        Ok(request)
    }

    /// The word of a peer's next credit, and its condition.
    fn next(&self, peer: u32) -> Result<(MappedMemory, Condition), Error> {
        let unknown = Error::NoPeer { rank: peer };
        let taken = self.taken.get(peer as usize).ok_or(unknown)?;
        let word = self.table.part(peer as usize * 4, 4)?;
        let value = taken.load(Ordering::Relaxed).wrapping_add(1);
        let compare = Compare::Geq;
        Ok((word, Condition { compare, value }))
    }

    fn took(&self, peer: u32) {
        if let Some(taken) = self.taken.get(peer as usize) {
            taken.fetch_add(1, Ordering::Relaxed);
        }
    }
}
