//! Ends stream waits after a timeout: the CPU writes the words that nothing else has written.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gpu::Compare;

use crate::queue::Wait;
use crate::{Error, MappedMemory};

/// Interval between checks of released words. A word may be overwritten before the stream reads it.
const AGAIN: Duration = Duration::from_millis(20);

const SIGN: u32 = 1 << 31;

/// A word that a stream waits for.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Description for people: "the completion of send 3".
    pub what: String,
    /// The word.
    pub word: MappedMemory,
    /// The value compared with.
    pub value: u32,
    /// The comparison.
    pub compare: Compare,
}

impl Watched {
    /// The word of a wait for a completion.
    #[must_use]
    pub fn completion(wait: &Wait) -> Self {
        let (value, compare) = wait.condition();
        Self {
            what: format!("completion {}", wait.index()),
            word: wait.word().clone(),
            value,
            compare,
        }
    }

    /// Returns the word's value if the condition does not hold.
    fn unmet(&self) -> Result<Option<u32>, Error> {
        let seen = self.word.load_u32(0)?;
        Ok((!self.compare.holds32(seen, self.value)).then_some(seen))
    }

    /// Writes the word if its condition does not hold yet, and returns the previous value.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] or [`Error::Mapping`] if the CPU cannot write the word.
    pub fn release(&self) -> Result<Option<u32>, Error> {
        let seen = self.unmet()?;
        if let Some(seen) = seen {
            self.word.store_u32(0, self.releasing(seen))?;
        }
        Ok(seen)
    }

    /// Returns a value that ends the wait. Nothing ends an AND with no bit or a NOR with all bits.
    fn releasing(&self, seen: u32) -> u32 {
        match self.compare {
            // Clear only the sign bit if that suffices: a CQE then stays invalid.
            Compare::Geq if self.compare.holds32(seen & !SIGN, self.value) => seen & !SIGN,
            Compare::Geq | Compare::Eq => self.value,
            Compare::And => seen | self.value,
            Compare::Nor => seen & self.value,
        }
    }
}

/// A wait that the CPU ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// Description of the wait.
    pub what: String,
    /// CPU address of host memory, device address of GPU memory.
    pub address: u64,
    /// The word's previous value.
    pub seen: u32,
    /// The value compared with.
    pub value: u32,
    /// The comparison.
    pub compare: Compare,
    /// The timeout of the wait.
    pub waited: Duration,
}

impl fmt::Display for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let condition = match self.compare {
            Compare::Geq => "GEQ",
            Compare::Eq => "EQ",
            Compare::And => "AND",
            Compare::Nor => "NOR",
        };
        write!(
            f,
            "{} did not come within {} ms: the word at {:#x} is {:#010x}, expected {condition} {:#010x}; it was written to \
             release the stream",
            self.what,
            self.waited.as_millis(),
            self.address,
            self.seen,
            self.value
        )
    }
}

/// A thread that ends stream waits after their timeout.
#[derive(Debug)]
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    watches: Vec<Watch>,
    next: u64,
    closing: bool,
}

#[derive(Debug)]
struct Watch {
    number: u64,
    start: Instant,
    due: Instant,
    words: Vec<Watched>,
    released: Vec<Released>,
}

/// The words being watched. Dropping it stops the watch.
#[derive(Debug)]
#[must_use = "dropping it stops the watch"]
pub struct Guard {
    shared: Arc<Shared>,
    number: u64,
}

impl Watchdog {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// [`Error::Thread`].
    pub fn start() -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("watchdog of streams".to_owned())
            .spawn(move || served.serve())
            .map_err(Error::Thread)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Watches these words. After `timeout` it writes each word whose condition does not hold, in
    /// order, repeatedly until the guard is finished or dropped.
    pub fn watch(&self, words: Vec<Watched>, timeout: Duration) -> Guard {
        let start = Instant::now();
        let mut state = self.shared.lock();
        let number = state.next;
        state.next += 1;
        state.watches.push(Watch {
            number,
            start,
            due: start + timeout,
            words,
            released: Vec::new(),
        });
        drop(state);
        self.shared.changed.notify_all();
        Guard { shared: Arc::clone(&self.shared), number }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Ignored: a panicked thread needs no further handling.
            let _ = thread.join();
        }
    }
}

impl Guard {
    /// Stops watching and returns the released words in order of release; empty if there were none.
    #[must_use]
    pub fn finish(self) -> Vec<Released> {
        let taken = self.shared.take(self.number);
        taken.map(|watch| watch.released).unwrap_or_default()
    }

    /// The words released so far.
    #[must_use]
    pub fn released(&self) -> Vec<Released> {
        let state = self.shared.lock();
        let mut watches = state.watches.iter();
        let watch = watches.find(|watch| watch.number == self.number);
        watch.map(|watch| watch.released.clone()).unwrap_or_default()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.take(self.number);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, number: u64) -> Option<Watch> {
        let mut state = self.lock();
        let position = state.watches.iter().position(|watch| watch.number == number)?;
        Some(state.watches.swap_remove(position))
    }

    fn serve(&self) {
        let mut state = self.lock();
        while !state.closing {
            let now = Instant::now();
            for watch in &mut state.watches {
                if watch.due <= now {
                    watch.release();
                    watch.due = now + AGAIN;
                }
            }
            let next = state.watches.iter().map(|watch| watch.due).min();
            state = match next {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let time = due.saturating_duration_since(Instant::now());
                    let waited = self.changed.wait_timeout(state, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Watch {
    fn release(&mut self) {
        for watched in &self.words {
            let ended = watched.release();
            // An unreachable word, such as one of a lost GPU, no longer blocks a stream.
            let Ok(Some(seen)) = ended else {
                continue;
            };
            let address = watched.word.address();
            // Report each word once, even if others overwrite it again.
            if !self.released.iter().any(|known| known.address == address) {
                self.released.push(Released {
                    what: watched.what.clone(),
                    address,
                    seen,
                    value: watched.value,
                    compare: watched.compare,
                    waited: self.start.elapsed(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gpu::Gpu;

    use super::*;
    use crate::hca::sim::SimHca;
    use crate::hca::{Hca as _, Request};
    use crate::queue::Waiting;
    use crate::{Allocator, MemoryLocation, Program};

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn releases_a_stream_and_reports_its_words() {
        let allocator = Allocator::new(Gpu::sim(), None);
        let words = allocator.place(MemoryLocation::Host, 64).unwrap();
        words.store_u32(8, 0x00ff_00ff).unwrap();
        words.store_u32(12, u32::MAX).unwrap();
        let cases = [
            (0, 5, Compare::Geq, 0),
            (4, 7, Compare::Eq, 0),
            (8, 0xff00_ff00, Compare::And, 0x00ff_00ff),
            (12, 0xfeff_ffff, Compare::Nor, u32::MAX),
        ];
        let mut program = Program::new();
        let mut watched = Vec::new();
        for (offset, value, compare, _) in cases {
            program.wait32(&words, offset, value, compare);
            watched.push(Watched {
                what: format!("word {offset}"),
                word: words.part(offset, 4).unwrap(),
                value,
                compare,
            });
        }
        program.write32(&words, 32, 1);
        let stream = allocator.gpu().stream().unwrap();
        program.post(&stream).unwrap();
        let dog = Watchdog::start().unwrap();
        let guard = dog.watch(watched, Duration::from_millis(30));
        stream.synchronize_within(LONG).unwrap();
        let released = guard.finish();
        let reported: Vec<_> = released
            .iter()
            .map(|released| (released.address, released.seen, released.value))
            .collect();
        let expected: Vec<_> = cases
            .iter()
            .map(|(offset, value, _, seen)| (words.address() + *offset as u64, *seen, *value))
            .collect();
        assert_eq!(reported, expected);
        assert_eq!(words.load_u32(32).unwrap(), 1);
        assert!(released[0].to_string().starts_with("word 0 did not come within "));
    }

    #[test]
    fn released_completion_is_no_success() {
        for waiting in [Waiting::Nor, Waiting::WithoutNor] {
            let allocator = Allocator::new(Gpu::sim(), None);
            let hca = SimHca::new(allocator.clone()).unwrap();
            let request = Request { waiting, ..Request::default() };
            let mut pair = hca.create(&request).unwrap();
            let wait = pair.send_completions.take_wait().unwrap();
            let mut program = Program::new();
            program.wait(&wait, false);
            let stream = allocator.gpu().stream().unwrap();
            program.post(&stream).unwrap();
            let dog = Watchdog::start().unwrap();
            let guard = dog.watch(vec![Watched::completion(&wait)], Duration::from_millis(20));
            stream.synchronize_within(LONG).unwrap();
            assert_eq!(guard.finish().len(), 1);
            let polled = pair.send_completions.poll();
            assert!(!matches!(polled, Ok(Some(_))), "{waiting:?}: {polled:?}");
        }
    }

    #[test]
    fn keeps_words_that_change_in_time() {
        let allocator = Allocator::new(Gpu::sim(), None);
        let words = allocator.place(MemoryLocation::Host, 64).unwrap();
        let mut program = Program::new();
        program.wait32(&words, 0, 5, Compare::Geq);
        let stream = allocator.gpu().stream().unwrap();
        program.post(&stream).unwrap();
        let dog = Watchdog::start().unwrap();
        let watched = Watched {
            what: "a word".to_owned(),
            word: words.part(0, 4).unwrap(),
            value: 5,
            compare: Compare::Geq,
        };
        let guard = dog.watch(vec![watched], LONG);
        words.store_u32(0, 9).unwrap();
        stream.synchronize_within(LONG).unwrap();
        assert_eq!(guard.finish(), []);
        assert_eq!(words.load_u32(0).unwrap(), 9);
    }
}
