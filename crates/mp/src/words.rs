//! Waits for words: by the CPU, and by streams with a deadline.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gdsync::{MappedMemory, Watched};
use gpu::Compare;

use crate::Error;
use crate::peer::pause;
use crate::stream::Batch;

/// Most waits of streams for words that are open at a time.
pub const MAX_WORDS: usize = 4096;

/// What a wait for a word waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// The comparison. GEQ is cyclic: it holds if the difference, as a signed number, is not negative.
    pub compare: Compare,
    /// Its right-hand side.
    pub value: u32,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compare = match self.compare {
            Compare::Geq => "GEQ",
            Compare::Eq => "EQ",
            Compare::And => "AND",
            Compare::Nor => "NOR",
        };
        write!(f, "{compare} {:#x}", self.value)
    }
}

impl Condition {
    /// Polls until the condition holds for what `load` returns.
    ///
    /// # Errors
    ///
    /// [`Error::Word`] after the timeout.
    pub fn wait(self, timeout: Duration, load: impl Fn() -> u32) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let seen = load();
            if self.compare.holds32(seen, self.value) {
                return Ok(());
            }
            let waited = start.elapsed();
            if waited >= timeout {
                return Err(Error::Word { condition: self.to_string(), seen, timeout });
            }
            pause(waited);
        }
    }
}

/// The waits of streams for words, each with a word that the stream clears when it has passed.
#[derive(Debug)]
pub(crate) struct Words {
    busy: MappedMemory,
    open: Mutex<Vec<Open>>,
    timeout: Duration,
}

#[derive(Debug)]
struct Open {
    slot: usize,
    watched: Watched,
    /// `None` while it is in a descriptor queue.
    deadline: Option<Instant>,
    is_reported: bool,
}

/// A wait of a descriptor queue. Dropping it does not end it.
#[derive(Debug, Clone)]
pub(crate) struct WordWait {
    slot: usize,
    word: MappedMemory,
    condition: Condition,
}

impl Words {
    /// Bytes of the place that it needs.
    pub const BYTES: usize = MAX_WORDS * 4;

    pub fn new(busy: MappedMemory, timeout: Duration) -> Self {
        let open = Mutex::default();
        Self { busy, open, timeout }
    }

    /// Reserves a wait.
    pub fn take(&self, word: &MappedMemory, condition: Condition) -> Result<WordWait, Error> {
        let mut open = self.open();
        open.retain(|open| self.is_busy(open.slot));
        let free = (0..MAX_WORDS).find(|slot| !self.is_busy(*slot));
        let slot = free.ok_or(Error::WordsFull)?;
        self.busy.store_u32(slot * 4, 1)?;
        open.push(Open {
            slot,
            watched: Watched {
                what: "a word".to_owned(),
                word: word.part(0, 4)?,
                value: condition.value,
                compare: condition.compare,
            },
            deadline: None,
            is_reported: false,
        });
        Ok(WordWait { slot, word: word.clone(), condition })
    }

    /// Adds a wait to a batch, and starts its time.
    pub fn add(&self, wait: &WordWait, batch: &mut Batch<'_>) -> Result<(), Error> {
        batch.wait(&wait.word, wait.condition)?;
        batch.write(&self.busy, wait.slot * 4, 0)?;
        let mut open = self.open();
        if let Some(open) = open.iter_mut().find(|open| open.slot == wait.slot) {
            open.deadline = Some(Instant::now() + self.timeout);
        }
        Ok(())
    }

    /// Ends a wait that no stream got.
    pub fn abandon(&self, wait: &WordWait) {
        // Ignored: the word is accessible.
        let _ = self.busy.store_u32(wait.slot * 4, 0);
    }

    /// Writes the words of late waits, again and again until their streams have passed. Returns what is new, in words.
    pub fn watch(&self, now: Instant) -> Vec<String> {
        let mut reports = Vec::new();
        let mut open = self.open();
        open.retain_mut(|open| {
            let is_busy = self.is_busy(open.slot);
            if is_busy && open.deadline.is_some_and(|deadline| deadline <= now) {
                // Ignored: a stream that waits for a word can access it, and so can the CPU.
                let seen = open.watched.release().ok().flatten();
                if let Some(seen) = seen.filter(|_| !std::mem::replace(&mut open.is_reported, true)) {
                    let condition = Condition {
                        compare: open.watched.compare,
                        value: open.watched.value,
                    };
                    reports.push(format!(
                        "a stream waited {} ms for the word at {:#x} to be {condition}: it is {seen:#x}; it was written to release \
                         the stream",
                        self.timeout.as_millis(),
                        open.watched.word.address()
                    ));
                }
            }
            is_busy
        });
        reports
    }

    /// Releases all streams. The words of those that have not passed stay allocated.
    pub fn close(&self) {
        let open = self.open();
        for open in open.iter().filter(|open| self.is_busy(open.slot)) {
            // Ignored: a stream that waits for a word can access it, and so can the CPU.
            let _ = open.watched.release();
            // A GPU that accesses freed memory loses its context.
            std::mem::forget((self.busy.clone(), open.watched.clone()));
        }
    }

    /// True while the stream has not passed the wait.
    fn is_busy(&self, slot: usize) -> bool {
        self.busy.load_u32(slot * 4).is_ok_and(|busy| busy != 0)
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
