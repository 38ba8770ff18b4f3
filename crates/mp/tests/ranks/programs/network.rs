//! Links between software HCAs that delay, duplicate and lose messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gdsync::hca::sim::{Body, Gone, Link, Message, SimHca};

use super::model::Random;

/// Longest delay.
const DELAY: Duration = Duration::from_micros(500);

/// All links, and the thread that delivers delayed messages in order.
pub struct Network {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Messages with the times of their delivery.
type Delayed = VecDeque<(Instant, Arc<dyn Link>, Message)>;

#[derive(Debug)]
struct State {
    random: Random,
    /// Delayed messages of each link, by ranks.
    delayed: BTreeMap<(usize, usize), Delayed>,
    /// Percentage of delayed and of duplicated messages.
    disturbed: usize,
    lost: Option<Lost>,
    /// A rank from and to which nothing arrives.
    silent: Option<usize>,
    closing: bool,
}

/// The message to lose.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    pub from: usize,
    pub to: usize,
    /// Messages of this kind on this link to let pass first.
    pub after: usize,
    /// An answer; else a request.
    pub answer: bool,
}

#[derive(Debug)]
struct Wire {
    ranks: (usize, usize),
    to: Arc<dyn Link>,
    shared: Arc<Shared>,
}

impl Network {
    pub fn of(hcas: &[Arc<SimHca>], random: Random) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                random,
                delayed: BTreeMap::new(),
                disturbed: 0,
                lost: None,
                silent: None,
                closing: false,
            }),
            changed: Condvar::new(),
        });
        for (from, hca) in hcas.iter().enumerate() {
            for (to, other) in hcas.iter().enumerate().filter(|(to, _)| *to != from) {
                let wire =
                    Wire { ranks: (from, to), to: other.inbox(), shared: Arc::clone(&shared) };
                hca.link(other.lid(), Arc::new(wire));
            }
        }
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || served.serve());
        Self { shared, thread: Some(thread) }
    }

    pub fn disturb(&self, percent: usize) {
        self.shared.state.lock().unwrap().disturbed = percent;
    }

    pub fn lose(&self, lost: Lost) {
        self.shared.state.lock().unwrap().lost = Some(lost);
    }

    pub fn silence(&self, rank: usize) {
        self.shared.state.lock().unwrap().silent = Some(rank);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap().closing = true;
        self.shared.changed.notify_all();
        self.thread.take().unwrap().join().unwrap();
    }
}

impl State {
    /// True if this is the message to lose.
    fn loses(&mut self, (from, to): (usize, usize), message: &Message) -> bool {
        if self.silent.is_some_and(|rank| rank == from || rank == to) {
            return true;
        }
        let is_answer = matches!(message.body, Body::Answer(_));
        let is_kind = |lost: &Lost| (lost.from, lost.to, lost.answer) == (from, to, is_answer);
        match &mut self.lost {
            Some(lost) if is_kind(lost) => match lost.after.checked_sub(1) {
                Some(after) => {
                    lost.after = after;
                    false
                }
                None => {
                    self.lost = None;
                    true
                }
            },
            _ => false,
        }
    }
}

impl Link for Wire {
    fn deliver(&self, message: Message) -> Result<(), Gone> {
        let mut state = self.shared.state.lock().unwrap();
        if state.loses(self.ranks, &message) {
            return Ok(());
        }
        let percent = state.disturbed;
        let (twice, late) = (state.random.is(percent), state.random.is(percent));
        let waiting = state.delayed.get(&self.ranks).is_some_and(|queue| !queue.is_empty());
        let copies = 1 + usize::from(twice);
        if !late && !waiting {
            drop(state);
            for _ in 1..copies {
                self.to.deliver(message.clone())?;
            }
            return self.to.deliver(message);
        }
        let delay = DELAY * state.random.below(100) as u32 / 100;
        let queue = state.delayed.entry(self.ranks).or_default();
        let due = queue.back().map_or_else(Instant::now, |last| last.0).max(Instant::now() + delay);
        for _ in 0..copies {
            queue.push_back((due, Arc::clone(&self.to), message.clone()));
        }
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }
}

impl Shared {
    fn serve(&self) {
        let mut state = self.state.lock().unwrap();
        while !state.closing {
            let now = Instant::now();
            let mut due = Vec::new();
            for queue in state.delayed.values_mut() {
                while let Some((_, link, message)) = queue.pop_front_if(|(at, ..)| *at <= now) {
                    due.push((link, message));
                }
            }
            let next = state.delayed.values().filter_map(|queue| Some(queue.front()?.0)).min();
            if !due.is_empty() {
                // Under the lock, so that no later message of the link overtakes them.
                for (link, message) in due {
                    let _ = link.deliver(message);
                }
                continue;
            }
            state = match next {
                None => self.changed.wait(state).unwrap(),
                Some(at) => {
                    self.changed.wait_timeout(state, at.saturating_duration_since(now)).unwrap().0
                }
            };
        }
    }
}
