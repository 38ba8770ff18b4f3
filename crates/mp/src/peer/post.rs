//! Posts requests: by the CPU, by a stream or kernel, or in two steps.

use std::ops::Range;
use std::time::Instant;

use gdsync::MappedMemory;
use gdsync::queue::Prepared;
use gpu::MemOp;

use super::{Entry, Lane, Peer, Unposted, pause};
use crate::stream::{self, Batch, Stream};
use crate::transfer::{bytes_of, segments};
use crate::{Error, Operation, Region, Transfer};

/// The queue is full.
struct Full;

impl Peer {
    /// Posts a receive.
    pub fn receive(&self, region: &Region, blocks: &[Range<usize>]) -> Result<u64, Error> {
        region.check(self.settings.owner)?;
        let bytes = bytes_of(blocks)?;
        let one;
        let many;
        let segments = match blocks {
            [block] => {
                one = [region.segment(block)?];
                one.as_slice()
            }
            blocks => {
                many = segments(region, blocks)?;
                many.as_slice()
            }
        };
        self.until_room("receive", |lane| {
            let Some(pair) = &mut lane.pair else {
                return Err(self.closed());
            };
            if lane.receives.entries.len() >= self.settings.depth {
                return Ok(Err(Full));
            }
            let number = match pair.receive.post(segments) {
                Err(gdsync::Error::Full { .. }) => return Ok(Err(Full)),
                posted => posted?,
            };
            lane.request += 1;
            let request = lane.request;
            lane.receives.push(Entry {
                request,
                number,
                completion: Some(lane.receives.next_completion),
                is_waitable: true,
                operation: Operation::Receive,
                bytes,
                staged: staged(region, blocks),
                region: region.clone(),
                wait: None,
                is_forgotten: false,
            });
            Ok(Ok(request))
        })
    }

    /// Posts a transfer by the CPU. Its doorbell is deferred while streams or kernels have not rung those before it.
    pub fn start(&self, transfer: &Transfer<'_>) -> Result<u64, Error> {
        if let Some(staged) = transfer.region.staged().filter(|_| transfer.reads_blocks()) {
            for block in transfer.blocks() {
                transfer.region.inside(block)?;
                self.settings.copier.download(staged, block)?;
            }
        }
        self.prepare_then(transfer, |lane, _, prepared| {
            if lane.all_rung() {
                return Ok(prepared.ring()?);
            }
            lane.deferred.push_back(prepared);
            lane.ring_deferred()?;
            if !lane.deferred.is_empty() {
                self.settings.bell.ring();
            }
            Ok(())
        })
    }

    /// Posts a transfer on a stream.
    pub fn start_on(&self, stream: &dyn Stream, transfer: &Transfer<'_>) -> Result<u64, Error> {
        self.prepare_then(transfer, |lane, request, prepared| {
            let posted = self.check_order(lane, request).and_then(|()| {
                if transfer.region.is_staged() {
                    let mut batch = Batch::new(stream, self.settings.can);
                    lane.stage(request, &mut batch)?;
                }
                stream::post(stream, &prepared.operations()?, self.settings.can)
            });
            if let Err(error) = posted {
                lane.roll_back(prepared)?;
                return Err(error);
            }
            lane.given(prepared);
            Ok(())
        })
    }

    /// Prepares a transfer for [`Self::post`], [`Self::queue`] or [`Self::expose`].
    pub fn prepare(&self, transfer: &Transfer<'_>) -> Result<u64, Error> {
        self.prepare_then(transfer, |lane, request, prepared| {
            lane.sends.unposted.push_back(Unposted { request, prepared, is_queued: false });
            Ok(())
        })
    }

    /// Adds a prepared transfer to a batch.
    pub fn post(&self, request: u64, batch: &mut Batch<'_>) -> Result<(), Error> {
        let mut lane = self.lane();
        self.check(&lane)?;
        self.check_order(&lane, request)?;
        lane.stage(request, batch)?;
        let prepared = lane.take_prepared(request, false)?;
        batch.add(prepared.operations())?;
        lane.given(prepared);
        Ok(())
    }

    /// Marks a prepared transfer as part of a descriptor queue.
    pub fn queue(&self, request: u64) -> Result<(), Error> {
        let mut lane = self.lane();
        self.check(&lane)?;
        let mut unposted = lane.sends.unposted.iter_mut();
        let first = unposted.find(|unposted| !unposted.is_queued);
        match first.filter(|first| first.request <= request) {
            None => Err(Error::Posted { request }),
            Some(first) if first.request < request => {
                Err(self.out_of_order(request, first.request))
            }
            Some(first) => {
                first.is_queued = true;
                Ok(())
            }
        }
    }

    /// Adds a queued transfer to a batch. Those queued before it were added before.
    pub fn post_queued(&self, request: u64, batch: &mut Batch<'_>) -> Result<(), Error> {
        let mut lane = self.lane();
        self.check(&lane)?;
        lane.stage(request, batch)?;
        let prepared = lane.take_prepared(request, true)?;
        batch.add(prepared.operations())?;
        lane.given(prepared);
        Ok(())
    }

    /// Takes a prepared transfer for a kernel: the operations that ring its doorbell.
    pub fn expose(&self, request: u64) -> Result<[MemOp<MappedMemory>; 3], Error> {
        let mut lane = self.lane();
        self.check(&lane)?;
        self.check_order(&lane, request)?;
        if lane.sends.entry(request).is_some_and(|entry| entry.region.is_staged()) {
            let used = "sent by a kernel";
            return Err(Error::Staged { used });
        }
        let prepared = lane.take_prepared(request, false)?;
        let ops = prepared.ops();
        lane.given(prepared);
        Ok(ops)
    }

    /// Prepares a transfer, and calls `then` with it under the lock. It counts as posted unless `then` changes that.
    fn prepare_then(
        &self,
        transfer: &Transfer<'_>,
        mut then: impl FnMut(&mut Lane, u64, Prepared) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        transfer.region.check(self.settings.owner)?;
        let bytes = bytes_of(transfer.blocks())?;
        let mut wqe = transfer.wqe(bytes, &self.settings.copier)?;
        self.until_room("send", |lane| {
            let Some(pair) = &mut lane.pair else {
                return Err(self.closed());
            };
            let (depth, sends) = (self.settings.depth, &mut lane.sends);
            if sends.entries.len() >= depth {
                return Ok(Err(Full));
            }
            // The blocks of an unsignalled WQE are freed by a later CQE, so some have one although nobody waits for it.
            wqe.flags.signalled = transfer.has_completion || sends.unsignalled + 1 >= depth / 4;
            let prepared = match pair.send.prepare(&wqe) {
                Err(gdsync::Error::Full { .. }) => return Ok(Err(Full)),
                prepared => prepared?,
            };
            lane.request += 1;
            let request = lane.request;
            let is_copied = transfer.reads_blocks() || transfer.operation() == Operation::Get;
            sends.push(Entry {
                request,
                number: prepared.number(),
                completion: wqe.flags.signalled.then_some(sends.next_completion),
                is_waitable: transfer.has_completion,
                operation: transfer.operation(),
                bytes,
                staged: if is_copied {
                    staged(transfer.region, transfer.blocks())
                } else {
                    Vec::new()
                },
                region: transfer.region.clone(),
                wait: None,
                is_forgotten: false,
            });
            then(lane, request, prepared).map(|()| Ok(request))
        })
    }

    /// Calls `attempt` under the lock until there is room, and polls completions meanwhile.
    fn until_room(
        &self,
        queue: &'static str,
        mut attempt: impl FnMut(&mut Lane) -> Result<Result<u64, Full>, Error>,
    ) -> Result<u64, Error> {
        let mut start = None;
        let (peer, timeout) = (self.rank, self.settings.timeout);
        loop {
            let mut lane = self.lane();
            self.check(&lane)?;
            if let Ok(request) = attempt(&mut lane)? {
                return Ok(request);
            }
            self.progress(&mut lane);
            drop(lane);
            let waited = start.get_or_insert_with(Instant::now).elapsed();
            if waited >= timeout {
                return Err(Error::Full { peer, queue, timeout });
            }
            pause(waited);
        }
    }

    /// Checks that all requests before this one are posted.
    fn check_order(&self, lane: &Lane, request: u64) -> Result<(), Error> {
        match lane.sends.unposted.front() {
            Some(first) if first.request < request => {
                Err(self.out_of_order(request, first.request))
            }
            _ => Ok(()),
        }
    }

    fn out_of_order(&self, request: u64, first: u64) -> Error {
        Error::Order { peer: self.rank, request, first }
    }
}

impl Lane {
    /// Takes the WQE of a prepared transfer, in a descriptor queue or not. It then counts as posted.
    fn take_prepared(&mut self, request: u64, is_queued: bool) -> Result<Prepared, Error> {
        let found = self.sends.unposted(request);
        let is_there = found.is_some_and(|unposted| unposted.is_queued == is_queued);
        let taken = is_there.then(|| self.sends.take_unposted(request));
        let taken = taken.flatten().map(|unposted| unposted.prepared);
        taken.ok_or(Error::Posted { request })
    }

    /// Copies the blocks of a staged transfer on the stream, before its doorbell.
    fn stage(&mut self, request: u64, batch: &mut Batch<'_>) -> Result<(), Error> {
        let Some(entry) = self.sends.entry(request) else {
            return Ok(());
        };
        if let Some(staged) = entry.region.staged().filter(|_| entry.operation != Operation::Get) {
            for block in &entry.staged {
                batch.download(staged, block.start, block.len())?;
            }
        }
        Ok(())
    }

    /// Notes that a stream or kernel rings this doorbell, and with it those that were deferred before.
    fn given(&mut self, prepared: Prepared) {
        self.deferred.retain(|deferred| deferred.number() > prepared.number());
        self.on_stream = Some(prepared);
    }

    /// True if no earlier doorbell is left to ring.
    fn all_rung(&self) -> bool {
        self.deferred.is_empty() && self.on_stream.is_none() && self.sends.unposted.is_empty()
    }

    /// Rings the deferred doorbells for which all WQEs before are posted and rung.
    pub(super) fn ring_deferred(&mut self) -> Result<(), Error> {
        if let Some(given) = &self.on_stream {
            if !given.is_rung()? {
                return Ok(());
            }
            self.on_stream = None;
        }
        let unposted = self.sends.unposted.front();
        let unposted = unposted.map_or(u64::MAX, |unposted| unposted.prepared.number());
        let is_free = |deferred: &mut Prepared| deferred.number() < unposted;
        while let Some(deferred) = self.deferred.pop_front_if(is_free) {
            deferred.ring()?;
        }
        Ok(())
    }

    /// Removes the last transfer, whose doorbell was not rung.
    pub(super) fn roll_back(&mut self, prepared: Prepared) -> Result<(), Error> {
        if let Some(pair) = &mut self.pair {
            pair.send.roll_back(prepared)?;
        }
        self.sends.pop_last();
        Ok(())
    }
}

/// The blocks, if the region is staged.
fn staged(region: &Region, blocks: &[Range<usize>]) -> Vec<Range<usize>> {
    if region.is_staged() { blocks.to_vec() } else { Vec::new() }
}
