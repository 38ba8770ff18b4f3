//! A stream's work queue.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::event::Record;
use super::faults::{Flaw, Late};
use super::kernels::Kernel;
use super::operation::Operation;
use super::span::Span;

/// How long a wait polls before it sleeps between polls.
const SPIN: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(20);

/// One work item of a stream.
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Item {
    /// Copies bytes between disjoint spans.
    Copy {
        to: Span,
        from: Span,
        bytes: usize,
        flaw: Option<Flaw>,
    },
    /// Fills bytes.
    FillBytes {
        to: Span,
        value: u8,
        bytes: usize,
    },
    /// Fills words aligned to 4.
    FillWords {
        to: Span,
        value: u32,
        words: usize,
    },
    /// Marks a record done.
    Signal(Arc<Record>),
    /// Waits for a record.
    Await(Arc<Record>),
    /// Memory operations, in order.
    Operations(Vec<Operation>),
    Launch(Kernel),
    /// Calls a function: an injected fault at this point of the stream.
    Call(Box<dyn FnOnce() + Send>),
}

/// A stream: threads push work, and one thread [serves](Self::serve) it.
pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    closing: AtomicBool,
    /// Timeout of a wait after the stream is closed; `None`: no timeout.
    grace: Option<Duration>,
    /// True if the context failed: work is then skipped, waits end, and records are done.
    has_failed: Box<dyn Fn() -> bool + Send + Sync>,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    put_in: u64,
    done: u64,
    /// Description of the current wait.
    waits: Option<String>,
    /// Why the remaining work will not run.
    abandoned: Option<Arc<str>>,
}

impl Queue {
    /// Empty queue. A wait in a closed stream is abandoned after `grace`; once `has_failed` returns
    /// true, work is skipped, waits end, and records are done.
    #[must_use]
    pub fn new(
        grace: Option<Duration>,
        has_failed: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            grace,
            has_failed: Box::new(has_failed),
        }
    }

    /// Enqueues work.
    ///
    /// # Errors
    ///
    /// Why this and all later work was abandoned.
    pub fn push(&self, item: Item) -> Result<(), Arc<str>> {
        let mut state = self.lock();
        if let Some(why) = &state.abandoned {
            return Err(Arc::clone(why));
        }
        state.items.push_back(item);
        state.put_in += 1;
        self.changed.notify_all();
        Ok(())
    }

    /// True if all work is done.
    ///
    /// # Errors
    ///
    /// Why the rest was abandoned.
    pub fn is_idle(&self) -> Result<bool, Arc<str>> {
        let state = self.lock();
        match &state.abandoned {
            Some(why) => Err(Arc::clone(why)),
            None => Ok(state.done == state.put_in),
        }
    }

    /// Waits until the work enqueued so far is done.
    ///
    /// # Errors
    ///
    /// Why the rest was abandoned.
    pub fn synchronize(&self) -> Result<(), Arc<str>> {
        let state = self.lock();
        let target = state.put_in;
        let unfinished = |state: &mut State| state.done < target && state.abandoned.is_none();
        let state =
            self.changed.wait_while(state, unfinished).unwrap_or_else(PoisonError::into_inner);
        match &state.abandoned {
            Some(why) if state.done < target => Err(Arc::clone(why)),
            _ => Ok(()),
        }
    }

    /// Human-readable description of the current work.
    pub fn describe(&self) -> String {
        let state = self.lock();
        match (&state.waits, state.put_in - state.done) {
            (Some(waits), left) => {
                format!("it waits for {waits}; {left} work items are not done")
            }
            (None, left) => format!("{left} work items are not done"),
        }
    }

    /// Runs work until the stream is closed and the queue empty, or a wait of a closed stream times
    /// out.
    pub fn serve(&self) {
        let mut late = Late::default();
        while let Some(item) = self.next() {
            let result = match item {
                Item::Signal(_) => item.perform(self, &mut late),
                _ if self.has_failed() => Ok(()),
                _ => item.perform(self, &mut late),
            };
            match result {
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

    /// Closes the queue: no more work follows.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Why the remaining work was abandoned.
    pub fn abandoned(&self) -> Option<Arc<str>> {
        self.lock().abandoned.clone()
    }

    /// True if the stream's context failed.
    pub(crate) fn has_failed(&self) -> bool {
        (self.has_failed)()
    }

    /// Waits until `ready` or until the context failed; `what` describes the wait for status
    /// queries.
    pub(crate) fn wait_until(
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
                if self.grace.is_some_and(|grace| since.elapsed() >= grace) {
                    return Err(format!("the stream was dropped while it waited for {}", what()));
                }
            }
            if start.elapsed() < SPIN {
                std::thread::yield_now();
            } else {
                if self.has_failed() {
                    break;
                }
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
        let mut state =
            self.changed.wait_while(state, starved).unwrap_or_else(PoisonError::into_inner);
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

#[cfg(test)]
mod tests {
    use super::super::event;
    use super::super::operation::Compare;
    use super::*;

    #[test]
    fn failed_context_ends_waits_and_skips_work() {
        static FAILED: AtomicBool = AtomicBool::new(false);
        let mut words = [0_u32; 2];
        let start = words.as_mut_ptr().cast::<u8>();
        // SAFETY: the words outlive the scope below, and nothing else accesses them there.
        let span = |word: usize| unsafe { Span::new(start.add(4 * word), None) };
        let queue = Queue::new(None, || FAILED.load(Ordering::Relaxed));
        let record = Arc::new(Record::default());
        let (on, to) = (span(0), span(1));
        let compare = Compare::Eq;
        let batch =
            vec![Operation::Wait32 { on, value: 1, compare }, Operation::Write32 { to, value: 1 }];
        queue.push(Item::Operations(batch)).unwrap();
        queue.push(Item::FillWords { to: span(1), value: 2, words: 1 }).unwrap();
        queue.push(Item::Signal(Arc::clone(&record))).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| queue.serve());
            std::thread::sleep(Duration::from_millis(5));
            assert!(matches!(record.state(), event::RecordState::Pending));
            FAILED.store(true, Ordering::Relaxed);
            assert!(matches!(record.wait(), event::RecordState::Done(_)));
            queue.close();
        });
        assert_eq!(words, [0, 0]);
    }
}
