//! Event records: pending, done or abandoned.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One record of an event; each `record` creates a new one.
#[derive(Debug, Default)]
pub struct Record {
    state: Mutex<RecordState>,
    changed: Condvar,
}

/// State of a record.
#[derive(Debug, Clone, Default)]
pub enum RecordState {
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
    pub fn state(&self) -> RecordState {
        self.lock().clone()
    }

    /// Marks it done.
    pub(crate) fn done(&self) {
        self.set(RecordState::Done(Instant::now()));
    }

    /// Marks it abandoned.
    pub(crate) fn abandon(&self, why: Arc<str>) {
        self.set(RecordState::Abandoned(why));
    }

    /// Waits until it is no longer pending.
    pub fn wait(&self) -> RecordState {
        let pending = |state: &mut RecordState| matches!(state, RecordState::Pending);
        let state = self.lock();
        self.changed.wait_while(state, pending).unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: RecordState) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, RecordState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
