//! Counts, errors, and threads without progress.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{HANG, print_line};

#[derive(Debug)]
pub struct Watch {
    started: Instant,
    counts: Mutex<BTreeMap<String, u64>>,
    wrongs: AtomicU64,
    workers: Mutex<Vec<Arc<State>>>,
}

#[derive(Debug)]
struct State {
    name: String,
    step: Mutex<&'static str>,
    /// Milliseconds since the start; [`ENDED`] after the last round.
    progress: AtomicU64,
}

const ENDED: u64 = u64::MAX;

/// A thread's view of [`Watch`].
#[derive(Debug)]
pub struct Worker {
    state: Arc<State>,
    started: Instant,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            counts: Mutex::default(),
            wrongs: AtomicU64::new(0),
            workers: Mutex::default(),
        }
    }
}

impl Watch {
    pub fn worker(&self, kind: &str, index: usize) -> Worker {
        let state = Arc::new(State {
            name: format!("{kind} {index}"),
            step: Mutex::new("start"),
            progress: AtomicU64::new(self.started.elapsed().as_millis() as u64),
        });
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(Arc::clone(&state));
        Worker { state, started: self.started }
    }

    pub fn count(&self, what: &str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(what) {
            Some(number) => *number += 1,
            None => {
                counts.insert(what.to_owned(), 1);
            }
        }
    }

    pub fn number(&self, what: &str) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(what).copied().unwrap_or(0)
    }

    pub fn wrong(&self, what: &str) {
        self.wrongs.fetch_add(1, Ordering::Relaxed);
        let _ = print_line(&format!("WRONG after {:.1?}: {what}", self.started.elapsed()));
    }

    pub fn wrongs(&self) -> usize {
        self.wrongs.load(Ordering::Relaxed) as usize
    }

    pub fn table(&self, title: &str) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let lines = counts.iter().map(|(what, number)| format!("\n  {number:>10}  {what}"));
        let lines: String = lines.collect();
        let (elapsed, wrongs) = (self.started.elapsed(), self.wrongs());
        let _ = print_line(&format!("-- {title}, {elapsed:.0?}, {wrongs} wrong{lines}"));
    }

    /// Prints the counts every 30 seconds until all threads have ended. Ends the process if one
    /// hangs.
    pub fn until_all_ended(&self) {
        let mut next = self.started.elapsed() + Duration::from_secs(30);
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
            workers.retain(|state| state.progress.load(Ordering::Relaxed) != ENDED);
            if workers.is_empty() {
                return;
            }
            let now = self.started.elapsed();
            let limit = HANG.as_millis() as u64;
            let late = |state: &&Arc<State>| {
                now.as_millis() as u64 > state.progress.load(Ordering::Relaxed) + limit
            };
            let hung: Vec<String> = workers
                .iter()
                .filter(late)
                .map(|state| {
                    let step = *state.step.lock().unwrap_or_else(PoisonError::into_inner);
                    format!("{} at {step}", state.name)
                })
                .collect();
            if !hung.is_empty() {
                self.wrong(&format!("no progress for {HANG:?}: {}", hung.join("; ")));
                self.table("hang");
                // SAFETY: ends the process at once: what hangs may hold any lock that an orderly
                // exit takes.
                unsafe { libc::_exit(3) };
            }
            drop(workers);
            if now >= next {
                next += Duration::from_secs(30);
                self.table("so far");
            }
        }
    }
}

impl Worker {
    /// Records the next step as progress.
    pub fn step(&self, name: &'static str) {
        *self.state.step.lock().unwrap_or_else(PoisonError::into_inner) = name;
        let now = self.started.elapsed().as_millis() as u64;
        self.state.progress.store(now, Ordering::Relaxed);
    }

    pub fn step_name(&self) -> &'static str {
        *self.state.step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn name(&self) -> &str {
        &self.state.name
    }

    pub fn end(&self) {
        self.state.progress.store(ENDED, Ordering::Relaxed);
    }
}
