//! The connection to one rank: its queue pair, and its requests in the order of their WQEs. Everything is under one lock.

mod complete;
mod end;
mod post;
mod wait;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gdsync::hca::{Endpoint, Hca, QueuePair};
use gdsync::queue::{Prepared, Wait};
use gpu::StreamCapabilities;

use crate::monitor::Bell;
use crate::region::Copier;
use crate::{Error, Failure, Operation, Region};

/// After this time a wait yields the CPU between polls, after a longer one it sleeps.
const SPIN: Duration = Duration::from_micros(200);
const YIELD: Duration = Duration::from_millis(2);
const MAX_SLEEP: Duration = Duration::from_millis(1);

/// Pauses between polls, longer the longer it has waited.
pub(crate) fn pause(waited: Duration) {
    if waited < SPIN {
        std::hint::spin_loop();
    } else if waited < YIELD {
        std::thread::yield_now();
    } else {
        std::thread::sleep((waited / 32).min(MAX_SLEEP));
    }
}

/// What all connections of a communicator share.
#[derive(Debug)]
pub(crate) struct Settings {
    pub hca: Arc<dyn Hca>,
    /// Number of the communicator.
    pub owner: u64,
    pub timeout: Duration,
    /// Most requests per queue.
    pub depth: usize,
    pub can: StreamCapabilities,
    pub bell: Arc<Bell>,
    pub copier: Copier,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub rank: u32,
    pub settings: Arc<Settings>,
    lane: Mutex<Lane>,
}

/// The queues of a connection.
#[derive(Debug)]
struct Lane {
    /// `None` once closed.
    pair: Option<QueuePair>,
    endpoint: Endpoint,
    /// The number of the last request, of both directions.
    request: u64,
    sends: Requests,
    receives: Requests,
    /// The CPU's doorbells that wait until streams have rung earlier ones, in order.
    deferred: VecDeque<Prepared>,
    /// The last doorbell that a stream or kernel rings.
    on_stream: Option<Prepared>,
    /// The first failure, in words.
    failed: Option<String>,
    /// Waits of a failed connection whose streams have not passed them.
    released: Vec<Wait>,
}

/// The requests of one direction.
#[derive(Debug, Default)]
struct Requests {
    /// In the order of their WQEs.
    entries: VecDeque<Entry>,
    /// Index of the next signalled WQE's CQE.
    next_completion: u32,
    /// Requests since the last signalled one.
    unsignalled: usize,
    /// Those whose doorbells nobody has got yet, in order.
    unposted: VecDeque<Unposted>,
    /// Of ended requests that nobody has waited for, in order.
    outcomes: VecDeque<Outcome>,
}

/// How a request ended.
#[derive(Debug)]
struct Outcome {
    request: u64,
    /// Boxed: most requests do not fail.
    result: Result<u64, Box<Failure>>,
    /// A stream or kernel has waited for it.
    was_waited: bool,
}

impl Outcome {
    /// The bytes received.
    fn bytes(self) -> Result<u64, Error> {
        self.result.map_err(|failure| Error::Failed(*failure))
    }
}

/// A request that has not ended.
#[derive(Debug)]
struct Entry {
    request: u64,
    /// Number of its WQE.
    number: u64,
    /// Index of its CQE.
    completion: Option<u32>,
    /// False for puts without a completion, although some have a CQE.
    is_waitable: bool,
    operation: Operation,
    bytes: u64,
    region: Region,
    /// Boxed: most requests have none.
    wait: Option<Box<OpenWait>>,
    /// The blocks, if the memory is staged: copied to the host before a send or put, to the GPU after a receive or get.
    staged: Vec<Range<usize>>,
    /// Its handle was dropped.
    is_forgotten: bool,
}

/// A prepared request.
#[derive(Debug)]
struct Unposted {
    request: u64,
    prepared: Prepared,
    /// It is in a descriptor queue.
    is_queued: bool,
}

/// A stream's or a kernel's wait.
#[derive(Debug)]
struct OpenWait {
    wait: Wait,
    /// `None` while it is in a descriptor queue.
    deadline: Option<Instant>,
}

/// The direction of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Sends,
    Receives,
}

impl Requests {
    fn position(&self, request: u64) -> Option<usize> {
        // Numbers of requests increase in a queue.
        let found = self.entries.binary_search_by_key(&request, |entry| entry.request);
        found.ok()
    }

    fn entry(&mut self, request: u64) -> Option<&mut Entry> {
        let position = self.position(request)?;
        self.entries.get_mut(position)
    }

    fn unposted(&self, request: u64) -> Option<&Unposted> {
        let unposted = &self.unposted;
        let found = unposted.binary_search_by_key(&request, |unposted| unposted.request);
        unposted.get(found.ok()?)
    }

    /// Takes the WQE of a prepared request, which then counts as posted.
    fn take_unposted(&mut self, request: u64) -> Option<Unposted> {
        let unposted = &self.unposted;
        let found = unposted.binary_search_by_key(&request, |unposted| unposted.request);
        self.unposted.remove(found.ok()?)
    }

    fn outcome(&mut self, request: u64) -> Option<&mut Outcome> {
        let position = self.outcome_position(request)?;
        self.outcomes.get_mut(position)
    }

    fn take_outcome(&mut self, request: u64) -> Option<Outcome> {
        let position = self.outcome_position(request)?;
        self.outcomes.remove(position)
    }

    fn outcome_position(&self, request: u64) -> Option<usize> {
        let found = self.outcomes.binary_search_by_key(&request, |outcome| outcome.request);
        found.ok()
    }

    fn has_posted(&self) -> bool {
        self.entries.len() > self.unposted.len()
    }

    fn oldest_posted(&self) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| self.unposted(entry.request).is_none())
    }

    fn push(&mut self, entry: Entry) {
        match entry.completion {
            Some(completion) => {
                self.next_completion = completion.wrapping_add(1);
                self.unsignalled = 0;
            }
            None => self.unsignalled += 1,
        }
        self.entries.push_back(entry);
    }

    /// Reverses the last [`Self::push`].
    fn pop_last(&mut self) {
        match self.entries.pop_back().map(|entry| entry.completion) {
            Some(Some(completion)) => {
                self.next_completion = completion;
                // Not known any more: the next one gets a CQE.
                self.unsignalled = usize::MAX / 2;
            }
            Some(None) => self.unsignalled = self.unsignalled.saturating_sub(1),
            None => {}
        }
    }
}

impl Lane {
    fn of(&mut self, direction: Direction) -> &mut Requests {
        match direction {
            Direction::Sends => &mut self.sends,
            Direction::Receives => &mut self.receives,
        }
    }

    fn outcomes(&mut self) -> impl Iterator<Item = &mut Result<u64, Box<Failure>>> {
        let (sends, receives) = (&mut self.sends, &mut self.receives);
        sends.outcomes.iter_mut().chain(&mut receives.outcomes).map(|outcome| &mut outcome.result)
    }
}

impl Peer {
    pub fn new(rank: u32, settings: Arc<Settings>, pair: QueuePair) -> Self {
        let lane = Lane {
            endpoint: pair.endpoint,
            pair: Some(pair),
            request: 0,
            sends: Requests::default(),
            receives: Requests::default(),
            deferred: VecDeque::new(),
            on_stream: None,
            failed: None,
            released: Vec::new(),
        };
        Self { rank, settings, lane: Mutex::new(lane) }
    }

    pub fn endpoint(&self) -> Endpoint {
        self.lane().endpoint
    }

    /// Number of requests whose handles exist.
    pub fn open(&self) -> usize {
        let lane = self.lane();
        let open = |requests: &Requests| {
            let held = |entry: &&Entry| !entry.is_forgotten;
            requests.entries.iter().filter(held).count() + requests.outcomes.len()
        };
        open(&lane.sends) + open(&lane.receives)
    }

    /// Ignores poisoning: after a panic the queues may miss a request, which then times out.
    fn lane(&self) -> MutexGuard<'_, Lane> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of an operation on a failed connection.
    fn check(&self, lane: &Lane) -> Result<(), Error> {
        match &lane.failed {
            None => Ok(()),
            Some(cause) => Err(Error::PeerFailed { peer: self.rank, cause: cause.clone() }),
        }
    }
}
