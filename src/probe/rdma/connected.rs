//! A connection: connected queue pairs and their completions.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gdsync::wire::RemoteAddress;

use super::control::{Control, Message, Offer, Window};
use super::device::MemoryRegion;
use super::end::End;
use super::memory::half;
use super::purpose::{Purpose, Role};
use super::queue_pair::{ActiveQueuePair, Completions, Post, Unconnected, WorkCompletion};
use crate::probe::failure::StepError;

/// Polls of a queue or a byte between checks of the clock and of the other end. The checks must not
/// add to a round trip, not even on an emulated CPU.
const POLLS_PER_CHECK: u32 = 4096;

/// Polls between two yields. On a single CPU a busy loop would block the thread that it waits for;
/// with more CPUs no reply of a NIC takes so long.
static YIELD_INTERVAL: OnceLock<u32> = OnceLock::new();

/// Sets how many CPUs an end has, before the ends keep to some of them.
pub fn count_cpus(cpus: u64) {
    YIELD_INTERVAL.get_or_init(|| match cpus {
        0 | 1 => 4,
        _ => POLLS_PER_CHECK,
    });
}

/// A queue pair connected to one of the remote end.
pub struct ConnectedQueuePair {
    pair: ActiveQueuePair,
    pub sent: Queue,
    pub received: Queue,
    /// This end's memory region, destroyed with the last queue pair of the test case.
    region: MemoryRegion,
    /// The other end's memory; address and key are 0 if no request names it.
    remote: RemoteAddress,
    /// Offset of the second half of that memory.
    pub half: usize,
}

impl ConnectedQueuePair {
    /// An address in the remote memory.
    pub fn remote(&self, offset: usize) -> RemoteAddress {
        RemoteAddress { address: self.remote.address.wrapping_add(offset as u64), ..self.remote }
    }

    /// Bytes that go with a request.
    pub fn inline_bytes(&self) -> usize {
        self.pair.inline_bytes()
    }

    /// True if requests end in any order.
    pub fn is_unordered(&self) -> bool {
        self.pair.is_unordered()
    }

    /// Posts a request to send.
    pub fn send(&mut self, post: &Post) -> Result<(), StepError> {
        self.pair.send(&self.region, post)
    }

    /// Posts a receive buffer: `bytes` of the region from offset `at`.
    pub fn receive(&mut self, id: u64, at: usize, bytes: usize) -> Result<(), StepError> {
        self.pair.receive(&self.region, id, (at, bytes), self.half)
    }
}

/// Connects the queue pairs of a test case to those of the remote end.
pub fn connect_queue_pairs(
    end: &End,
    purpose: Purpose,
    role: Role,
    other: &Offer,
    control: &mut Control,
) -> Result<Vec<ConnectedQueuePair>, StepError> {
    let region = end.register(purpose, role)?;
    let made = (0..purpose.pairs).map(|_| Unconnected::create(end, purpose, role));
    let made = made.collect::<Result<Vec<_>, _>>()?;
    let endpoints = made.iter().map(Unconnected::endpoint).collect();
    let window = purpose.is_remote(role).then(|| region.window());
    control.send(Message::QueuePairs(endpoints, window))?;
    let (theirs, window) = match control.receive(Duration::ZERO)? {
        Message::QueuePairs(theirs, window) if theirs.len() == made.len() => (theirs, window),
        _ => return Err(StepError::OutOfStep),
    };
    let remote = match window {
        Some(Window { address, rkey }) => RemoteAddress { address, key: rkey },
        None if purpose.is_remote(role.other()) => return Err(StepError::OutOfStep),
        None => RemoteAddress { address: 0, key: 0 },
    };
    let connect = |(made, theirs): (Unconnected, _)| {
        let (pair, completions) = made.connect(end, purpose, other, theirs)?;
        let [sent, received] = completions.map(|completions| Queue::new(completions, end.timeout));
        Ok(ConnectedQueuePair {
            pair,
            sent,
            received,
            region: region.clone(),
            remote,
            half: half(purpose.bytes),
        })
    };
    made.into_iter().zip(theirs).map(connect).collect()
}

/// A completion queue, and how long a completion may take.
pub struct Queue {
    queue: Completions,
    timeout: Duration,
    taken: Vec<WorkCompletion>,
}

impl Queue {
    fn new(queue: Completions, timeout: Duration) -> Self {
        Self { queue, timeout, taken: Vec::new() }
    }

    /// Returns the available completions, at most 16. A failed request is an error.
    pub fn poll(&mut self) -> Result<&[WorkCompletion], StepError> {
        self.queue.take(&mut self.taken)?;
        Ok(&self.taken)
    }

    /// Waits for a completion, and takes no other.
    pub fn wait(&mut self, control: &mut Control) -> Result<WorkCompletion, StepError> {
        let mut timer = PollTimer::new(self.timeout);
        loop {
            if let Some(taken) = self.queue.take_one()? {
                return Ok(taken);
            }
            timer.tick("a completion", control)?;
        }
    }
}

/// Counts polls, and checks the clock and the remote end every [`POLLS_PER_CHECK`].
pub struct PollTimer {
    begun: Option<Instant>,
    timeout: Duration,
    polls: u32,
    /// Polls between two yields.
    yield_interval: u32,
}

impl PollTimer {
    pub fn new(timeout: Duration) -> Self {
        Self {
            begun: None,
            timeout,
            polls: 0,
            yield_interval: *YIELD_INTERVAL.get().unwrap_or(&POLLS_PER_CHECK),
        }
    }

    /// True if the last poll checked the clock.
    pub fn is_due(&self) -> bool {
        self.polls.is_multiple_of(POLLS_PER_CHECK)
    }

    /// Counts a poll without a result. Fails after the timeout, or if the remote end failed.
    pub fn tick(&mut self, what: &'static str, control: &mut Control) -> Result<(), StepError> {
        self.polls += 1;
        // A power of two: no division between two polls.
        if self.polls & (self.yield_interval - 1) == 0 {
            std::thread::yield_now();
        }
        if self.polls.is_multiple_of(POLLS_PER_CHECK) {
            control.peek()?;
            let begun = *self.begun.get_or_insert_with(Instant::now);
            if begun.elapsed() > self.timeout {
                return Err(StepError::Late { what, timeout: self.timeout });
            }
        }
        Ok(())
    }
}
