//! Posts receive WQEs to verbs.

use verbs::{QueuePairState, Segment, Sge};

use super::completions;
use super::pair::{Link, ProxyQueuePair};
use super::region::MemoryRegions;
use crate::Error;
use crate::wire::{DataSegment, Syndrome};

/// Posts receives while verbs have room. True if there was work.
///
/// A NIC rejects a receive into unregistered memory when a message arrives. Verbs cannot post one, so it fails when it is the
/// next one.
pub(super) fn post(pair: &mut ProxyQueuePair, regions: &MemoryRegions) -> bool {
    let mut worked = false;
    while pair.unusable.is_none()
        && (pair.receives.len() as u32) < pair.room.receives
        && pair.receive.is_posted()
    {
        match &mut pair.link {
            Link::Connecting | Link::Gone => break,
            Link::Borrowed(borrowed) => match borrowed.receives() {
                Ok(true) => {}
                Ok(false) => break,
                // If the query fails, the device is lost.
                Err(_) => {
                    pair.broken = true;
                    return true;
                }
            },
            Link::Init(_) | Link::Ready(_) => {}
        }
        let (counter, segments) = pair.receive.take();
        match post_one(pair, regions, counter, segments) {
            Ok(()) => {
                pair.receives.push_back(counter);
                pair.unchecked = true;
            }
            Err(syndrome) => pair.unusable = Some((counter, syndrome)),
        }
        worked = true;
    }
    if pair.receives.is_empty()
        && let Some((counter, syndrome)) = pair.unusable.take()
    {
        pair.receive_failed(counter, syndrome, 0);
        pair.broken = true;
        worked = true;
    }
    worked
}

/// Fails a queue pair that is in the state ERR: Soft-RoCE does not flush a receive that is posted in this state.
///
/// The query can be a command to the firmware, so it is made once after receives are posted, and only if nothing has completed since
/// the last check.
pub(super) fn check(pair: &mut ProxyQueuePair) {
    let is_quiet = pair.clock == std::mem::replace(&mut pair.checked_at, pair.clock);
    if pair.failed || !pair.unchecked || !is_quiet {
        return;
    }
    let state = match &pair.link {
        Link::Ready(link) => link.state(),
        Link::Borrowed(borrowed) => borrowed.pair.state(),
        Link::Init(_) | Link::Connecting | Link::Gone => return,
    };
    pair.unchecked = false;
    // If the query fails, the device is lost.
    if matches!(state, Ok(QueuePairState::Error) | Err(_)) {
        completions::fail(pair);
    }
}

fn post_one(
    pair: &mut ProxyQueuePair,
    regions: &MemoryRegions,
    counter: u16,
    segments: Result<Vec<DataSegment>, Error>,
) -> Result<(), Syndrome> {
    let segments = segments.map_err(|_| Syndrome::LocalOperation)?;
    if let Link::Borrowed(borrowed) = &mut pair.link {
        let segments: Vec<Segment> = segments.iter().map(by_key).collect();
        let posted = borrowed.pair.receive_by_keys(counter.into(), &segments);
        return posted.map_err(|_| Syndrome::LocalOperation);
    }
    let sges: Vec<Sge<'_>> =
        regions.sges(&segments, true).map_err(|_| Syndrome::LocalProtection)?;
    let posted = match &mut pair.link {
        Link::Init(link) => link.receive(counter.into(), &sges),
        Link::Ready(link) => link.receive(counter.into(), &sges),
        Link::Connecting | Link::Borrowed(_) | Link::Gone => return Err(Syndrome::LocalOperation),
    };
    posted.map_err(|_| Syndrome::LocalOperation)
}

/// A verbs segment with an unchecked key.
pub(super) fn by_key(segment: &DataSegment) -> Segment {
    Segment { address: segment.address, length: segment.length, key: segment.key }
}
