//! A record of an event: pending, done, or never to be.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// One record of an event. Each `record` of an event makes another.
#[derive(Debug, Default)]
pub struct Record {
    state: Mutex<State>,
    changed: Condvar,
}

/// The state of a record.
#[derive(Debug, Clone, Default)]
pub enum State {
    /// The stream has not come to it yet.
    #[default]
    Pending,
    /// The stream came to it at this time.
    Done(Instant),
    /// The stream never will, for this reason.
    Abandoned(Arc<str>),
}

impl Record {
    pub fn state(&self) -> State {
        self.lock().clone()
    }

    /// The stream has come to it.
    pub(crate) fn done(&self) {
        self.set(State::Done(Instant::now()));
    }

    /// The stream never will.
    pub(crate) fn abandon(&self, why: Arc<str>) {
        self.set(State::Abandoned(why));
    }

    /// Waits until it is no longer pending.
    pub fn wait(&self) -> State {
        let pending = |state: &mut State| matches!(state, State::Pending);
        let state = self.lock();
        self.changed
            .wait_while(state, pending)
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
