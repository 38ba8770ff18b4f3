//! Waits of streams and kernels for requests, and their deadlines.

use std::time::Instant;

use gdsync::Watched;
use gdsync::queue::Wait;

use super::{Direction, Entry, Lane, OpenWait, Peer};
use crate::stream::Batch;
use crate::{Error, Operation};

impl Peer {
    /// Makes a batch wait for a request. Nothing is added if it has ended.
    pub fn wait_on(
        &self,
        direction: Direction,
        request: u64,
        batch: &mut Batch<'_>,
    ) -> Result<(), Error> {
        let mut lane = self.lane();
        let Some(wait) = self.take_wait(&mut lane, direction, request, false)? else {
            return Ok(());
        };
        batch.add(wait.operations(true))?;
        let entry = lane.of(direction).entry(request);
        entry.map_or(Ok(()), |entry| arrive_on(entry, batch))
    }

    /// Reserves the wait of a descriptor queue.
    pub fn queue_wait(&self, direction: Direction, request: u64) -> Result<(), Error> {
        let mut lane = self.lane();
        self.take_wait(&mut lane, direction, request, true).map(drop)
    }

    /// Adds a reserved wait to a batch.
    pub fn wait_queued(
        &self,
        direction: Direction,
        request: u64,
        batch: &mut Batch<'_>,
    ) -> Result<(), Error> {
        let mut lane = self.lane();
        let deadline = Some(Instant::now() + self.settings.timeout);
        let Some(entry) = lane.of(direction).entry(request) else {
            // The connection has failed, or the request had ended before.
            return self.check(&lane);
        };
        if let Some(open) = &mut entry.wait {
            open.deadline = deadline;
            batch.add(open.wait.operations(true))?;
        }
        arrive_on(entry, batch)
    }

    /// Ends a reserved wait that no stream got.
    pub fn abandon_wait(&self, direction: Direction, request: u64) {
        let mut lane = self.lane();
        if let Some(entry) = lane.of(direction).entry(request)
            && let Some(open) = entry.wait.take_if(|open| open.deadline.is_none())
        {
            // Ignored: the words of a queue are accessible.
            let _ = open.wait.abandon();
        }
    }

    /// Takes the wait for a kernel. `None` if the request has ended.
    pub fn expose_wait(&self, direction: Direction, request: u64) -> Result<Option<Wait>, Error> {
        let mut lane = self.lane();
        let is_staged = |entry: &mut Entry| entry.region.is_staged();
        if lane.of(direction).entry(request).is_some_and(is_staged) {
            let used = "waited for by a kernel";
            return Err(Error::Staged { used });
        }
        self.take_wait(&mut lane, direction, request, false)
    }

    /// The wait for a request that has not ended.
    fn take_wait(
        &self,
        lane: &mut Lane,
        direction: Direction,
        request: u64,
        is_queued: bool,
    ) -> Result<Option<Wait>, Error> {
        self.progress(lane);
        let requests = match direction {
            Direction::Sends => &mut lane.sends,
            Direction::Receives => &mut lane.receives,
        };
        if let Some(outcome) = requests.outcome(request) {
            return match &outcome.result {
                Err(failure) => Err(Error::Failed((**failure).clone())),
                Ok(_) if std::mem::replace(&mut outcome.was_waited, true) => {
                    Err(Error::Waited { request })
                }
                Ok(_) => Ok(None),
            };
        }
        let is_unposted = requests.unposted(request).map(|found| found.is_queued);
        let Some(entry) = requests.entry(request) else {
            return Ok(None);
        };
        let (true, Some(completion)) = (entry.is_waitable, entry.completion) else {
            return Err(Error::NoCompletion { request });
        };
        if is_unposted.is_some_and(|is_queueable| !is_queueable || !is_queued) {
            return Err(Error::NotPosted { request });
        }
        if entry.wait.is_some() {
            return Err(Error::Waited { request });
        }
        let Some(pair) = &mut lane.pair else {
            return Err(self.closed());
        };
        let queue = match direction {
            Direction::Sends => &mut pair.send_completions,
            Direction::Receives => &mut pair.receive_completions,
        };
        let wait = queue.take_wait_for(completion)?;
        let now = Instant::now();
        entry.wait = Some(Box::new(OpenWait {
            wait: wait.clone(),
            deadline: (!is_queued).then(|| now + self.settings.timeout),
        }));
        Ok(Some(wait))
    }

    /// Called regularly: rings deferred doorbells, fails the connection if a wait is late, and ends the waits of a failed one. Returns
    /// the first failure, in words, if it is new.
    pub fn watch(&self, now: Instant) -> Option<String> {
        let mut lane = self.lane();
        if lane.failed.is_some() {
            self.release(&mut lane);
            return None;
        }
        if !lane.deferred.is_empty() {
            self.progress(&mut lane);
        }
        // The time of sends whose doorbells a stream has not reached begins when it does.
        let is_given = lane.on_stream.as_ref();
        if is_given.is_some_and(|given| !given.is_rung().unwrap_or(true)) {
            let deadline = now + self.settings.timeout;
            let waits = lane.sends.entries.iter_mut();
            let waits = waits.filter_map(|entry| entry.wait.as_mut()?.deadline.as_mut());
            waits.for_each(|due| *due = deadline);
        }
        let is_late = |direction: &Direction| {
            let mut entries = lane.of(*direction).entries.iter();
            entries.any(|entry| is_late(entry, now))
        };
        let directions = [Direction::Sends, Direction::Receives].into_iter();
        let late = { directions }.find(is_late)?;
        self.fail_late(&mut lane, late);
        lane.failed.clone()
    }

    /// True if a doorbell of the CPU is deferred.
    pub fn is_deferred(&self) -> bool {
        !self.lane().deferred.is_empty()
    }

    /// Ends the waits of a failed connection. Their words are written again until the streams have passed them, because the HCA may
    /// write them too.
    pub(super) fn release(&self, lane: &mut Lane) {
        lane.released.retain(|wait| {
            let is_open = is_open(wait);
            if is_open {
                // Ignored: a stream that waits for a word can access it, and so can the CPU.
                let _ = Watched::completion(wait).release();
            }
            is_open
        });
    }
}

/// True while the stream has not passed the wait.
pub(super) fn is_open(wait: &Wait) -> bool {
    wait.busy().load_u32(0).is_ok_and(|busy| busy != 0)
}

/// True if its time is over and its CQE is not written. A stream that has not reached a wait for a written one is not late because of
/// the peer.
fn is_late(entry: &Entry, now: Instant) -> bool {
    let late = entry.wait.as_ref().filter(|open| {
        let is_due = open.deadline.is_some_and(|deadline| deadline <= now);
        is_due && is_open(&open.wait) && !open.wait.is_over().unwrap_or(false)
    });
    late.is_some()
}

/// Copies a received message to staged memory on the stream, after its wait.
fn arrive_on(entry: &Entry, batch: &mut Batch<'_>) -> Result<(), Error> {
    let arrives = matches!(entry.operation, Operation::Receive | Operation::Get);
    if let Some(staged) = entry.region.staged().filter(|_| arrives) {
        for block in &entry.staged {
            batch.upload(staged, block.start, block.len())?;
        }
    }
    Ok(())
}
