//! Event records: pending, done or abandoned.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One record of an event; each `record` creates a new one.
#[derive(Debug, Default)]
pub struct Record {
    state: Mutex<State>,
    changed: Condvar,
}

/// State of a record.
#[derive(Debug, Clone, Default)]
pub enum State {
    /// Not reached by the stream yet.
    #[default]
    Pending,
    /// Reached at this time.
    Done(Instant),
    /// Will never be reached, for this reason.
    Abandoned(Arc<str>),
}

impl Record {
    /// Its present state.
    pub fn state(&self) -> State {
        self.lock().clone()
    }

    /// Marks it done.
    pub(crate) fn done(&self) {
        self.set(State::Done(Instant::now()));
    }

    /// Marks it abandoned.
    pub(crate) fn abandon(&self, why: Arc<str>) {
        self.set(State::Abandoned(why));
    }

    /// Waits until it is no longer pending.
    pub fn wait(&self) -> State {
        let pending = |state: &mut State| matches!(state, State::Pending);
        let state = self.lock();
        self.changed.wait_while(state, pending).unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
