//! Ranks that are threads of one process: for tests and examples.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::{Bootstrap, Error, names};

/// A rank that is a thread of this process.
///
/// ```
/// use mp::bootstrap::{Bootstrap, Local};
/// use std::time::Duration;
///
/// let threads = Local::ranks(3).into_iter().map(|mut rank| {
///     std::thread::spawn(move || rank.all_gather(&[rank.rank() as u8; 2], Duration::from_secs(60)))
/// });
/// for thread in threads.collect::<Vec<_>>() {
///     assert_eq!(thread.join().expect("no panic")?, [[0, 0], [1, 1], [2, 2]]);
/// }
/// # Ok::<(), mp::bootstrap::Error>(())
/// ```
#[derive(Debug)]
pub struct Local {
    rank: u32,
    round: u64,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    size: u32,
}

#[derive(Debug, Default)]
struct State {
    round: u64,
    /// Of this round, by rank.
    given: Vec<Option<Vec<u8>>>,
    /// Of the round before.
    complete: Arc<Vec<Vec<u8>>>,
    failed: bool,
}

impl Local {
    /// The ranks 0 to `size` - 1.
    #[must_use]
    pub fn ranks(size: u32) -> Vec<Self> {
        let given = vec![None; size as usize];
        let state = State { given, ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), size });
        let rank = |rank| Self { rank, round: 0, shared: Arc::clone(&shared) };
        (0..size).map(rank).collect()
    }
}

impl Bootstrap for Local {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.shared.size
    }

    fn all_gather(&mut self, bytes: &[u8], timeout: Duration) -> Result<Vec<Vec<u8>>, Error> {
        let lock = self.shared.state.lock();
        let mut state = lock.unwrap_or_else(PoisonError::into_inner);
        if state.failed {
            return Err(Error::Failed);
        }
        if let Some(given) = state.given.get_mut(self.rank as usize) {
            *given = Some(bytes.to_vec());
        }
        self.round += 1;
        if state.given.iter().all(Option::is_some) {
            let none = vec![None; state.given.len()];
            let given = std::mem::replace(&mut state.given, none);
            state.complete = Arc::new(given.into_iter().flatten().collect());
            state.round += 1;
            self.shared.changed.notify_all();
        }
        let round = self.round;
        let waits = |state: &mut State| state.round < round && !state.failed;
        let waited = self.shared.changed.wait_timeout_while(state, timeout, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.round >= round {
            return Ok(state.complete.as_ref().clone());
        }
        state.failed = true;
        self.shared.changed.notify_all();
        let missing = (0..).zip(&state.given).filter(|(_, given)| given.is_none());
        let who = names(missing.map(|(rank, _)| rank));
        Err(Error::TimedOut { who, timeout })
    }
}
