//! The send ring: doorbells, entries, and what verbs are asked for.

use std::sync::atomic::{Ordering, fence};

use verbs::{Remote, Sge, Work};

use super::pair::{InFlight, Link, Pair};
use super::receives::by_key;
use super::region::MemoryRegions;
use crate::hca::rings::brings;
use crate::wire::{
    BLOCK, Control, Decoded, Fence, Operation, Payload, RemoteAddress, Syndrome, Transport, Wqe,
    producer_of,
};

/// As many bytes as one message has at most: 1 GiB, as NICs say of their ports.
const LONGEST: u64 = 1 << 30;
/// ENOMEM: the queue of verbs is full.
const FULL: i32 = 12;

/// Takes a doorbell. The register is cleared before the record is read, so that of two doorbells in a row none is missed: either
/// the second is still in the register, or the record is already the second's.
///
/// Of one that is written in two halves, as GPUs without words of 64 bits do, the second names the queue pair: until then it is left.
/// One that names another queue pair, or a record that cannot be, is not heard.
pub(super) fn listen(pair: &mut Pair) -> bool {
    let Ok(doorbell @ 1..) = pair.send.register.load_u64(0) else {
        return false;
    };
    if Control::rung(doorbell).0 == 0 {
        return false;
    }
    let cleared = pair.send.register.store_u64(0, 0);
    fence(Ordering::SeqCst);
    let record = pair.send.record.load_u32(0).map(producer_of);
    let (Ok(()), Ok(record)) = (cleared, record) else {
        return false;
    };
    let (rung, index) = Control::rung(doorbell);
    let covered = record.wrapping_sub(index);
    let new = u32::from(record.wrapping_sub(pair.send.cursor));
    if rung == pair.endpoint.qpn
        && (1..=1 << 15).contains(&covered)
        && new <= pair.send.depth.entries()
    {
        pair.send.producer = record;
    }
    true
}

/// Gives verbs what was rung and what they have room for; whether anything was.
pub(super) fn post(pair: &mut Pair, regions: &MemoryRegions) -> bool {
    let takes = match &mut pair.link {
        Link::Ready(_) => Ok(true),
        Link::Borrowed(borrowed) if !pair.send.is_empty() => borrowed.sends(),
        Link::Init(_) | Link::Connecting | Link::Borrowed(_) | Link::Gone => Ok(false),
    };
    match takes {
        Ok(true) => {}
        Ok(false) => return false,
        // A device that cannot be asked is lost.
        Err(_) => {
            pair.broken = true;
            return true;
        }
    }
    let mut worked = false;
    while !pair.halted && !pair.send.is_empty() && pair.posted < pair.room.sends {
        match take(pair, regions) {
            Taken::Later => break,
            Taken::Wqe(in_flight, blocks) => {
                pair.halted = matches!(in_flight.verdict, Some(Err(_)));
                pair.posted += u32::from(in_flight.posted);
                pair.next += 1;
                pair.send.cursor = pair.send.cursor.wrapping_add(blocks);
                pair.sends.push_back(in_flight);
                worked = true;
            }
        }
    }
    worked
}

/// What is known of an entry whose blocks may not be one: its opcode's byte, and its size if that makes sense.
pub(super) fn unread(pair: &Pair) -> (InFlight, u16) {
    let first = pair.send.blocks(1).unwrap_or_default();
    let blocks = Control::decode(&first).map_or(1, |control| control.blocks() as u16);
    let in_flight = InFlight {
        id: pair.next,
        counter: pair.send.cursor,
        opcode: first.get(3).copied().unwrap_or(0),
        signalled: true,
        brings: 0,
        verdict: Some(Err((Syndrome::LocalOperation, 0))),
        posted: false,
    };
    (in_flight, blocks.min(pair.send.left()))
}

enum Taken {
    /// The entry, and its blocks.
    Wqe(InFlight, u16),
    /// It is not its turn.
    Later,
}

fn take(pair: &mut Pair, regions: &MemoryRegions) -> Taken {
    let Some(decoded) = fetch(pair) else {
        let (in_flight, blocks) = unread(pair);
        return Taken::Wqe(in_flight, blocks);
    };
    // Verbs have a fence for reads and atomic operations alone.
    if decoded.entry.flags.fence == Fence::Strong && !pair.sends.is_empty() {
        return Taken::Later;
    }
    let entry = &decoded.entry;
    let verdict = match request(pair, regions, entry) {
        Ok(Asked::Nothing) => Some(Ok(())),
        Ok(Asked::Verbs) => None,
        Ok(Asked::Full) => return Taken::Later,
        Err(syndrome) => Some(Err((syndrome, 0))),
    };
    let in_flight = InFlight {
        id: pair.next,
        counter: decoded.index,
        opcode: entry.operation.opcode() as u8,
        signalled: entry.flags.signalled,
        // At most 1 GiB.
        brings: if brings(&entry.operation) {
            entry.payload.bytes() as u32
        } else {
            0
        },
        posted: verdict.is_none(),
        verdict,
    };
    // At most 16.
    Taken::Wqe(in_flight, decoded.blocks as u16)
}

/// Reads the entry at the cursor.
fn fetch(pair: &Pair) -> Option<Decoded> {
    let first = pair.send.blocks(1).ok()?;
    let control = Control::decode(&first).ok()?;
    let whole = control.blocks() <= usize::from(pair.send.left());
    if control.index != pair.send.cursor || control.qpn != pair.endpoint.qpn || !whole {
        return None;
    }
    let bytes = pair.send.blocks(control.blocks()).ok()?;
    Wqe::decode(&bytes, Transport::Connected).ok()
}

enum Asked {
    /// There is nothing to be done.
    Nothing,
    /// Verbs have it.
    Verbs,
    /// Verbs have no room.
    Full,
}

/// Asks verbs for what an entry asks for.
fn request(pair: &mut Pair, regions: &MemoryRegions, entry: &Wqe) -> Result<Asked, Syndrome> {
    let length = entry.payload.bytes();
    if length > LONGEST {
        return Err(Syndrome::LocalLength);
    }
    let work = match entry.operation {
        Operation::Nop => return Ok(Asked::Nothing),
        Operation::Send { immediate } => Work::Send(immediate),
        Operation::Write { remote, immediate } => Work::Write(peer(remote), immediate),
        Operation::Read { remote } => Work::Read(peer(remote)),
        Operation::CompareSwap { .. } | Operation::FetchAdd { .. } if length != 8 => {
            return Err(Syndrome::LocalLength);
        }
        Operation::CompareSwap {
            remote,
            compare,
            swap,
        } => Work::CompareSwap {
            remote: peer(remote),
            compare,
            swap,
        },
        Operation::FetchAdd { remote, add } => Work::FetchAdd(peer(remote), add),
    };
    let at = pair.send.depth.slot(pair.send.cursor.into()) as usize * BLOCK;
    let brought = brings(&entry.operation);
    let mut request = verbs::Request::new(pair.next, work, &[]);
    request.solicited = entry.flags.solicited;
    request.fenced = matches!(
        entry.flags.fence,
        Fence::ReadsAndAtomics | Fence::SmallAndReads
    );
    let asked = match &mut pair.link {
        Link::Ready(link) => {
            let pieces = match &entry.payload {
                Payload::Inline(bytes) => {
                    let piece = bounced(&pair.bounce, at, bytes);
                    vec![piece.map_err(|_| Syndrome::LocalProtection)?]
                }
                Payload::Segments(segments) => {
                    let pieces = regions.pieces(segments, brought);
                    pieces.map_err(|_| Syndrome::LocalProtection)?
                }
            };
            request.pieces = &pieces;
            link.send(&request)
        }
        Link::Borrowed(borrowed) => {
            let segments = match &entry.payload {
                Payload::Inline(bytes) => {
                    let piece = bounced(&pair.bounce, at, bytes);
                    vec![piece.map_err(|_| Syndrome::LocalProtection)?.into()]
                }
                Payload::Segments(segments) => segments.iter().map(by_key).collect(),
            };
            borrowed.pair.send_by_keys(&request, &segments)
        }
        Link::Init(_) | Link::Connecting | Link::Gone => return Err(Syndrome::LocalOperation),
    };
    match asked {
        Ok(()) => Ok(Asked::Verbs),
        Err(error) if error.errno() == Some(FULL) && pair.posted > 0 => Ok(Asked::Full),
        // What the device does not do at all: too many pieces, too long, a queue pair that is lost.
        Err(_) => Err(Syndrome::LocalOperation),
    }
}

/// An entry's own bytes, where verbs can read them.
fn bounced<'b>(
    bounce: &'b super::pair::Bounce,
    at: usize,
    bytes: &[u8],
) -> Result<Sge<'b>, verbs::Error> {
    bounce.buffer.write(at, bytes)?;
    bounce.region.piece(at, bytes.len())
}

fn peer(remote: RemoteAddress) -> Remote {
    Remote {
        address: remote.address,
        rkey: remote.key,
    }
}
