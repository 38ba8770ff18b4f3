//! A stream's queue: what is put in, what is done, and what will not be.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::event::Record;
use super::faults::{Flaw, Late};
use super::kernels::SimKernel;
use super::space::Span;
use crate::operation::Compare;

/// How long a wait in a dropped stream may still last: another stream may be about to end it.
const GRACE: Duration = Duration::from_millis(100);
/// How long the thread looks at a watched word again and again, before it begins to sleep between the looks.
const SPIN: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(20);

/// One thing to do, on memory that was found already.
#[derive(Debug)]
pub(super) enum Item {
    Copy {
        to: Span,
        from: Span,
        bytes: usize,
        flaw: Option<Flaw>,
    },
    FillBytes {
        to: Span,
        value: u8,
        bytes: usize,
    },
    FillWords {
        to: Span,
        value: u32,
        words: usize,
    },
    Signal(Arc<Record>),
    Await(Arc<Record>),
    Operations(Vec<Operation>),
    Launch(SimKernel),
}

/// A memory operation, on memory that was found already.
#[derive(Debug)]
pub(super) enum Operation {
    Write32 {
        to: Span,
        value: u32,
    },
    Write64 {
        to: Span,
        value: u64,
    },
    Wait32 {
        on: Span,
        value: u32,
        compare: Compare,
    },
    Wait64 {
        on: Span,
        value: u64,
        compare: Compare,
    },
    Fence,
}

/// What the stream's thread and those who use the stream share.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    closing: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    put_in: u64,
    done: u64,
    /// What the thread waits for.
    waits: Option<String>,
    /// Why the rest will not be done.
    abandoned: Option<Arc<str>>,
}

impl Queue {
    pub(super) fn push(&self, item: Item) -> Result<(), Arc<str>> {
        let mut state = self.lock();
        if let Some(why) = &state.abandoned {
            return Err(Arc::clone(why));
        }
        state.items.push_back(item);
        state.put_in += 1;
        self.changed.notify_all();
        Ok(())
    }

    /// Whether all is done.
    pub(super) fn is_idle(&self) -> Result<bool, Arc<str>> {
        let state = self.lock();
        match &state.abandoned {
            Some(why) => Err(Arc::clone(why)),
            None => Ok(state.done == state.put_in),
        }
    }

    /// Waits until what was put in so far is done.
    pub(super) fn synchronize(&self) -> Result<(), Arc<str>> {
        let state = self.lock();
        let target = state.put_in;
        let unfinished = |state: &mut State| state.done < target && state.abandoned.is_none();
        let state = self
            .changed
            .wait_while(state, unfinished)
            .unwrap_or_else(PoisonError::into_inner);
        match &state.abandoned {
            Some(why) if state.done < target => Err(Arc::clone(why)),
            _ => Ok(()),
        }
    }

    /// What it does, for a person.
    pub(super) fn describe(&self) -> String {
        let state = self.lock();
        match (&state.waits, state.put_in - state.done) {
            (Some(waits), left) => {
                format!("it waits for {waits}; {left} pieces of work are not done")
            }
            (None, left) => format!("{left} pieces of work are not done"),
        }
    }

    /// Does the work until the stream is closed and the queue empty, or until a wait of a closed stream lasts too long.
    pub(super) fn serve(&self) {
        let mut late = Late::default();
        while let Some(item) = self.next() {
            match item.perform(self, &mut late) {
                Ok(()) => {
                    late.passed();
                    self.lock().done += 1;
                    self.changed.notify_all();
                }
                Err(why) => return self.abandon(&why.into()),
            }
        }
        late.finish();
    }

    /// No more work will be put in.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Why the rest was not done.
    pub(super) fn abandoned(&self) -> Option<Arc<str>> {
        self.lock().abandoned.clone()
    }

    /// Waits until `ready`; `what` says for what, to whoever asks meanwhile.
    pub(super) fn wait_until(
        &self,
        what: impl Fn() -> String,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), String> {
        if ready() {
            return Ok(());
        }
        self.lock().waits = Some(what());
        let start = Instant::now();
        let mut closing_since = None;
        while !ready() {
            if self.closing.load(Ordering::Relaxed) {
                let since = *closing_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= GRACE {
                    return Err(format!(
                        "the stream was dropped while it waited for {}",
                        what()
                    ));
                }
            }
            if start.elapsed() < SPIN {
                std::thread::yield_now();
            } else {
                self.lock().waits = Some(what());
                std::thread::sleep(NAP);
            }
        }
        self.lock().waits = None;
        Ok(())
    }

    fn next(&self) -> Option<Item> {
        let state = self.lock();
        let starved =
            |state: &mut State| state.items.is_empty() && !self.closing.load(Ordering::Relaxed);
        let mut state = self
            .changed
            .wait_while(state, starved)
            .unwrap_or_else(PoisonError::into_inner);
        state.items.pop_front()
    }

    fn abandon(&self, why: &Arc<str>) {
        let mut state = self.lock();
        state.abandoned = Some(Arc::clone(why));
        let rest = std::mem::take(&mut state.items);
        drop(state);
        for item in rest {
            if let Item::Signal(record) = item {
                record.abandon(Arc::clone(why));
            }
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
