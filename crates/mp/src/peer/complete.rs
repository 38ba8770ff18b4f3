//! Polls completions, gives each request its outcome, and fails a connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gdsync::wire::{Completion, Syndrome};

use super::{Direction, Entry, Lane, Outcome, Peer, Requests, Unposted, pause};
use crate::error::Cause;
use crate::{Error, Failure};

/// Polls of the awaited queue between two readings of the clock and polls of both queues, which take as long as several of them.
const POLLS: usize = 8;
/// How long a failed connection's HCA may take to flush its work. Kernels and NICs flush at once; a stream that has not reached its wait
/// may hold completions back.
const FLUSH: Duration = Duration::from_millis(200);

impl Lane {
    /// False if no request of this direction has completed since the last poll.
    fn may_have_completion(&self, direction: Direction) -> bool {
        std::hint::spin_loop();
        let Some(pair) = &self.pair else {
            return false;
        };
        let queue = match direction {
            Direction::Sends => &pair.send_completions,
            Direction::Receives => &pair.receive_completions,
        };
        // A poll returns the error.
        queue.may_have_next().unwrap_or(true)
    }
}

impl Peer {
    /// Waits for a request by the CPU: the bytes of its message.
    pub fn wait(&self, direction: Direction, request: u64) -> Result<u64, Error> {
        let mut start = None;
        let mut turns = 0_usize;
        let timeout = self.settings.timeout;
        let mut lane = self.lane();
        let requests = lane.of(direction);
        // It may have ended while another one was waited for.
        if let Some(outcome) = requests.take_outcome(request) {
            return outcome.bytes();
        }
        let entry = requests.entry(request);
        if entry.is_some_and(|entry| !entry.is_waitable) {
            return Err(Error::NoCompletion { request });
        }
        if requests.unposted(request).is_some() {
            return Err(Error::NotPosted { request });
        }
        loop {
            self.progress(&mut lane);
            let requests = lane.of(direction);
            if let Some(outcome) = requests.take_outcome(request) {
                return outcome.bytes();
            }
            if requests.position(request).is_none() {
                return Err(Error::Ended { request });
            }
            // A completion that a stream waits for stays in its queue.
            turns += 1;
            if !turns.is_multiple_of(POLLS)
                && (0..POLLS).any(|_| lane.may_have_completion(direction))
            {
                continue;
            }
            let waited = start.get_or_insert_with(Instant::now).elapsed();
            if waited >= timeout {
                self.fail_late(&mut lane, direction);
                continue;
            }
            drop(lane);
            pause(waited);
            lane = self.lane();
        }
    }

    /// Polls, and rings deferred doorbells. True if the request has ended.
    pub fn has_ended(&self, direction: Direction, request: u64) -> bool {
        let mut lane = self.lane();
        self.progress(&mut lane);
        lane.of(direction).position(request).is_none()
    }

    /// Forgets a request: its outcome is not kept. One that is prepared but not posted is removed, if it is the last; otherwise it goes
    /// with the next doorbell.
    pub fn forget(&self, direction: Direction, request: u64) {
        let mut lane = self.lane();
        let requests = lane.of(direction);
        if requests.take_outcome(request).is_some() {
            return;
        }
        let last = requests.entries.back().map(|entry| entry.request);
        let Some(entry) = requests.entry(request) else {
            return;
        };
        entry.is_forgotten = true;
        let Some(unposted) = requests.take_unposted(request) else {
            return;
        };
        let wait = requests.entry(request).and_then(|entry| entry.wait.take());
        if let Some(open) = wait {
            // Ignored: the words of a queue are accessible.
            let _ = open.wait.abandon();
        }
        if last == Some(request) {
            // Ignored: the last WQE of the queue can be rolled back.
            let _ = lane.roll_back(unposted.prepared);
        }
    }

    /// Polls both completion queues, and rings deferred doorbells.
    pub(super) fn progress(&self, lane: &mut Lane) {
        if lane.failed.is_some() {
            return;
        }
        let rung = if lane.deferred.is_empty() { Ok(()) } else { lane.ring_deferred() };
        let polled = rung.and_then(|()| self.poll(lane));
        match polled {
            Ok(None) => {}
            Ok(Some(failure)) => self.fail_with(lane, None, failure.to_string()),
            Err(error) => self.fail_with(lane, None, gpu::sentence(&error)),
        }
    }

    /// Takes all completions. Returns the first failure.
    fn poll(&self, lane: &mut Lane) -> Result<Option<Box<Failure>>, Error> {
        let mut first = None;
        let Some(pair) = &mut lane.pair else {
            return Ok(None);
        };
        while let Some(completion) = pair.send_completions.poll()? {
            let number = pair.send.complete(&completion)?;
            let failed = self.end_up_to(&mut lane.sends, number, &completion);
            first = first.or(failed);
        }
        while let Some(completion) = pair.receive_completions.poll()? {
            let number = pair.receive.complete(&completion)?;
            let failed = self.end_up_to(&mut lane.receives, number, &completion);
            first = first.or(failed);
        }
        Ok(first)
    }

    /// Ends the request of a completion, and the unsignalled ones before it. Returns its failure.
    fn end_up_to(
        &self,
        requests: &mut Requests,
        number: u64,
        completion: &Completion,
    ) -> Option<Box<Failure>> {
        let is_over = |unposted: &mut Unposted| unposted.prepared.number() <= number;
        while requests.unposted.pop_front_if(is_over).is_some() {}
        let mut failure = None;
        while let Some(entry) = requests.entries.front().filter(|entry| entry.number <= number) {
            let result = match completion.event.failed() {
                _ if entry.number < number => Ok(0),
                None => self.arrive(entry, completion.bytes.into()),
                Some(failed) => {
                    let cause = Cause::of(entry.operation, failed.syndrome, failed.vendor);
                    Err(self.failure(entry, cause))
                }
            };
            failure = result.as_ref().err().cloned();
            keep(&mut requests.outcomes, entry, result);
            requests.entries.pop_front();
        }
        failure
    }

    fn failure(&self, entry: &Entry, cause: Cause) -> Box<Failure> {
        Box::new(Failure {
            peer: self.rank,
            request: entry.request,
            operation: entry.operation,
            bytes: entry.bytes,
            cause,
            first: None,
        })
    }

    /// Copies a received message to staged memory, unless a stream does.
    fn arrive(&self, entry: &Entry, bytes: u64) -> Result<u64, Box<Failure>> {
        use crate::Operation::{Get, Receive};
        let is_here = matches!(entry.operation, Get | Receive) && entry.wait.is_none();
        if let Some(staged) = entry.region.staged().filter(|_| is_here) {
            let mut left = bytes as usize;
            for block in &entry.staged {
                let end = block.start + block.len().min(left);
                left -= end - block.start;
                let copied = self.settings.copier.upload(staged, &(block.start..end));
                copied.map_err(|_| {
                    let (syndrome, vendor) = (Syndrome::LocalOperation, 0);
                    self.failure(entry, Cause::Hca { syndrome, vendor })
                })?;
            }
        }
        Ok(bytes)
    }

    /// Fails the connection because a request is late. The oldest one is the cause: those after it cannot complete before.
    pub(super) fn fail_late(&self, lane: &mut Lane, direction: Direction) {
        let oldest = lane.of(direction).oldest_posted();
        let cause = Cause::TimedOut(self.settings.timeout);
        let failure = oldest.map(|entry| self.failure(entry, cause));
        let words = failure.as_ref().map_or_else(String::new, |failure| failure.to_string());
        let culprit = failure.map(|failure| (direction, failure));
        self.fail_with(lane, culprit, words);
    }

    /// Fails the connection. Its HCA stops, so no later message reaches the program's memory; every request ends, and every wait of a
    /// stream. `culprit` has not ended yet.
    pub(super) fn fail_with(
        &self,
        lane: &mut Lane,
        culprit: Option<(Direction, Box<Failure>)>,
        words: String,
    ) {
        if lane.failed.is_some() {
            return;
        }
        lane.failed = Some(words.clone());
        lane.deferred = VecDeque::new();
        // Ignored: a queue pair that cannot be stopped is already gone.
        let _ = self.settings.hca.stop(lane.endpoint);
        let start = Instant::now();
        while (lane.sends.has_posted() || lane.receives.has_posted()) && start.elapsed() < FLUSH {
            // An error leaves the requests to the loop below.
            if self.poll(lane).is_err() {
                break;
            }
            std::thread::yield_now();
        }
        for direction in [Direction::Sends, Direction::Receives] {
            lane.of(direction).unposted.clear();
            let entries = std::mem::take(&mut lane.of(direction).entries);
            for mut entry in entries {
                let waits = entry.wait.take().map(|open| open.wait);
                lane.released.extend(waits);
                let failure = self.failure(&entry, Cause::Flushed);
                keep(&mut lane.of(direction).outcomes, &entry, Err(failure));
            }
        }
        let first: Arc<str> = words.into();
        for outcome in lane.outcomes() {
            if let Err(failure) = outcome
                && failure.cause == Cause::Flushed
            {
                failure.first = Some(Arc::clone(&first));
            }
        }
        if let Some((direction, failure)) = culprit
            && let Some(outcome) = lane.of(direction).outcome(failure.request)
            && let Err(flushed) = &mut outcome.result
            && flushed.cause == Cause::Flushed
        {
            *flushed = failure;
        }
        self.release(lane);
    }
}

/// Keeps an outcome for the request's handle. Requests end in the order of their numbers.
fn keep(outcomes: &mut VecDeque<Outcome>, entry: &Entry, result: Result<u64, Box<Failure>>) {
    if !entry.is_forgotten {
        outcomes.push_back(Outcome {
            request: entry.request,
            result,
            was_waited: entry.wait.is_some(),
        });
    }
}
