//! Reads doorbells and send WQEs, and posts them to verbs.

use verbs::{Handle, Remote, Sge, Work};

use super::pair::{AddressHandle, InFlight, Link, ProxyQueuePair};
use super::receives::by_key;
use super::region::MemoryRegions;
use crate::hca::rings::brings;
use crate::wire::{
    AddressVector, BLOCK, Control, Decoded, Fence, GlobalRoute, Operation, Payload, RemoteAddress,
    Syndrome, Wqe,
};

/// Longest message in bytes: 1 GiB, the limit of NIC ports.
const LONGEST: u64 = 1 << 30;
/// ENOMEM: the verbs queue is full.
const FULL: i32 = 12;

/// Polls the doorbell. True if it was rung.
///
/// GPUs without 64-bit words write it in two halves. The second half holds the QPN: until it is there, the doorbell is not read.
/// A doorbell with another QPN or an impossible record is ignored.
pub(super) fn poll_doorbell(pair: &mut ProxyQueuePair) -> bool {
    let Some(doorbell) = pair.send.doorbell() else {
        return false;
    };
    if Control::rung(doorbell).0 == 0 {
        return false;
    }
    let Some(record) = pair.send.acknowledge(doorbell) else {
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

/// Posts sends while verbs have room. True if there was work.
pub(super) fn post(pair: &mut ProxyQueuePair, regions: &MemoryRegions) -> bool {
    let is_ready = match &mut pair.link {
        Link::Ready(_) => Ok(true),
        Link::Borrowed(borrowed) if !pair.send.is_empty() => borrowed.sends(),
        Link::Init(_) | Link::Connecting | Link::Borrowed(_) | Link::Gone => Ok(false),
    };
    match is_ready {
        Ok(true) => {}
        Ok(false) => return false,
        // If the query fails, the device is lost.
        Err(_) => {
            pair.broken = true;
            return true;
        }
    }
    let mut worked = false;
    while !pair.halted && !pair.send.is_empty() && pair.posted < pair.room.sends {
        match take(pair, regions) {
            TakeResult::Later => break,
            TakeResult::Wqe(in_flight, blocks) => {
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

enum TakeResult {
    /// The WQE and its number of blocks.
    Wqe(InFlight, u16),
    /// It must wait for earlier ones.
    Later,
}

fn take(pair: &mut ProxyQueuePair, regions: &MemoryRegions) -> TakeResult {
    let Some(decoded) = fetch(pair) else {
        let (opcode, blocks) = pair.send.peek();
        let in_flight = InFlight {
            id: pair.next,
            counter: pair.send.cursor,
            opcode,
            signalled: true,
            brings: 0,
            verdict: Some(Err((Syndrome::LocalOperation, 0))),
            posted: false,
        };
        return TakeResult::Wqe(in_flight, blocks);
    };
    // Verbs only have a fence for reads and atomics.
    if decoded.entry.flags.fence == Fence::Strong && !pair.sends.is_empty() {
        return TakeResult::Later;
    }
    let entry = &decoded.entry;
    let verdict = match request(pair, regions, entry) {
        Ok(PostResult::Nop) => Some(Ok(())),
        Ok(PostResult::Posted) => None,
        Ok(PostResult::Full) => return TakeResult::Later,
        Err(syndrome) => Some(Err((syndrome, 0))),
    };
    let in_flight = InFlight {
        id: pair.next,
        counter: decoded.index,
        opcode: entry.operation.opcode() as u8,
        signalled: entry.flags.signalled,
        // At most 1 GiB.
        brings: if brings(&entry.operation) { entry.payload.bytes() as u32 } else { 0 },
        posted: verdict.is_none(),
        verdict,
    };
    // At most 16.
    TakeResult::Wqe(in_flight, decoded.blocks as u16)
}

/// Reads the WQE at the cursor.
fn fetch(pair: &ProxyQueuePair) -> Option<Decoded> {
    let first = pair.send.blocks(1).ok()?;
    let control = Control::decode(&first).ok()?;
    let whole = control.blocks() <= usize::from(pair.send.left());
    if control.index != pair.send.cursor || control.qpn != pair.endpoint.qpn || !whole {
        return None;
    }
    let bytes = pair.send.blocks(control.blocks()).ok()?;
    Wqe::decode(&bytes, pair.transport).ok()
}

enum PostResult {
    /// Nothing to post.
    Nop,
    Posted,
    /// The verbs queue is full.
    Full,
}

/// Posts a WQE to verbs.
fn request(
    pair: &mut ProxyQueuePair,
    regions: &MemoryRegions,
    entry: &Wqe,
) -> Result<PostResult, Syndrome> {
    let length = entry.payload.bytes();
    if length > LONGEST {
        return Err(Syndrome::LocalLength);
    }
    let work = match entry.operation {
        Operation::Nop => return Ok(PostResult::Nop),
        Operation::Send { immediate } => match &entry.datagram {
            Some(to) => Work::SendBy {
                handle: handle(&pair.handles, &to.path).ok_or(Syndrome::LocalOperation)?,
                queue_pair: to.qpn,
                qkey: to.key,
                immediate,
            },
            None => Work::Send(immediate),
        },
        Operation::Write { remote, immediate } => Work::Write(peer(remote), immediate),
        Operation::Read { remote } => Work::Read(peer(remote)),
        Operation::CompareSwap { .. } | Operation::FetchAdd { .. } if length != 8 => {
            return Err(Syndrome::LocalLength);
        }
        Operation::CompareSwap { remote, compare, swap } => {
            Work::CompareSwap { remote: peer(remote), compare, swap }
        }
        Operation::FetchAdd { remote, add } => Work::FetchAdd(peer(remote), add),
    };
    let at = pair.send.depth.slot(pair.send.cursor.into()) as usize * BLOCK;
    let brought = brings(&entry.operation);
    let mut request = verbs::Request::new(pair.next, work, &[]);
    request.solicited = entry.flags.solicited;
    request.fenced = matches!(entry.flags.fence, Fence::ReadsAndAtomics | Fence::SmallAndReads);
    let posted = match &mut pair.link {
        Link::Ready(link) => {
            let sges = match &entry.payload {
                Payload::Inline(bytes) => {
                    let sge = copy_inline(&pair.bounce, at, bytes);
                    vec![sge.map_err(|_| Syndrome::LocalProtection)?]
                }
                Payload::Segments(segments) => {
                    let sges = regions.sges(segments, brought);
                    sges.map_err(|_| Syndrome::LocalProtection)?
                }
            };
            request.sges = &sges;
            link.send(&request)
        }
        Link::Borrowed(borrowed) => {
            let segments = match &entry.payload {
                Payload::Inline(bytes) => {
                    let sge = copy_inline(&pair.bounce, at, bytes);
                    vec![sge.map_err(|_| Syndrome::LocalProtection)?.into()]
                }
                Payload::Segments(segments) => segments.iter().map(by_key).collect(),
            };
            borrowed.pair.send_by_keys(&request, &segments)
        }
        Link::Init(_) | Link::Connecting | Link::Gone => return Err(Syndrome::LocalOperation),
    };
    match posted {
        Ok(()) => Ok(PostResult::Posted),
        Err(error) if error.errno() == Some(FULL) && pair.posted > 0 => Ok(PostResult::Full),
        // The device rejects it: too many SGEs, too long, or the queue pair is lost.
        Err(_) => Err(Syndrome::LocalOperation),
    }
}

impl ProxyQueuePair {
    /// The address in WQEs of the handle that `is_it` finds, or of a new one.
    pub(super) fn address(
        &mut self,
        is_it: impl Fn(&AddressHandle) -> bool,
        new: impl FnOnce() -> AddressHandle,
    ) -> AddressVector {
        let known = self.handles.iter().position(is_it);
        let index = known.unwrap_or_else(|| {
            self.handles.push(new());
            self.handles.len() - 1
        });
        AddressVector {
            has_route: true,
            route: GlobalRoute { gid: (index as u128).to_be_bytes(), ..GlobalRoute::default() },
            ..AddressVector::default()
        }
    }
}

fn handle<'h>(handles: &'h [AddressHandle], path: &AddressVector) -> Option<Handle<'h>> {
    let index = usize::try_from(u128::from_be_bytes(path.route.gid)).ok()?;
    handles.get(index).map(AddressHandle::get)
}

/// Copies inline data to registered memory.
fn copy_inline<'b>(
    bounce: &'b super::pair::Bounce,
    at: usize,
    bytes: &[u8],
) -> Result<Sge<'b>, verbs::Error> {
    bounce.buffer.write(at, bytes)?;
    bounce.region.sge(at, bytes.len())
}

fn peer(remote: RemoteAddress) -> Remote {
    Remote { address: remote.address, rkey: remote.key }
}
