//! The receive ring: entries that software posts are posted to verbs as they appear.

use verbs::{Segment, Sge};

use super::pair::{Link, Pair};
use super::region::MemoryRegions;
use crate::Error;
use crate::wire::{DataSegment, Syndrome};

/// Gives verbs the receives that were posted and that they have room for; whether anything was done.
///
/// A receive that names memory which is not registered a NIC finds out when a message arrives. Verbs cannot have it at all: it
/// fails when it would be the next.
pub(super) fn post(pair: &mut Pair, regions: &MemoryRegions) -> bool {
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
                // A device that cannot be asked is lost.
                Err(_) => {
                    pair.broken = true;
                    return true;
                }
            },
            Link::Init(_) | Link::Ready(_) => {}
        }
        let (counter, segments) = pair.receive.take();
        match give(pair, regions, counter, segments) {
            Ok(()) => pair.receives.push_back(counter),
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

fn give(
    pair: &mut Pair,
    regions: &MemoryRegions,
    counter: u16,
    segments: Result<Vec<DataSegment>, Error>,
) -> Result<(), Syndrome> {
    let segments = segments.map_err(|_| Syndrome::LocalOperation)?;
    if let Link::Borrowed(borrowed) = &mut pair.link {
        let segments: Vec<Segment> = segments.iter().map(by_key).collect();
        let given = borrowed.pair.receive_by_keys(counter.into(), &segments);
        return given.map_err(|_| Syndrome::LocalOperation);
    }
    let pieces: Vec<Sge<'_>> = regions
        .pieces(&segments, true)
        .map_err(|_| Syndrome::LocalProtection)?;
    let given = match &mut pair.link {
        Link::Init(link) => link.receive(counter.into(), &pieces),
        Link::Ready(link) => link.receive(counter.into(), &pieces),
        Link::Connecting | Link::Borrowed(_) | Link::Gone => return Err(Syndrome::LocalOperation),
    };
    given.map_err(|_| Syndrome::LocalOperation)
}

/// As verbs have it. The key is its owner's, and nobody here knows what it stands for.
pub(super) fn by_key(segment: &DataSegment) -> Segment {
    Segment {
        address: segment.address,
        length: segment.length,
        key: segment.key,
    }
}
