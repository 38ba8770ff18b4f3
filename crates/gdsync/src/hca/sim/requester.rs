//! The requester: doorbells, send entries, and their completions.

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use super::completer::NoPlace;
use super::fault::{Effect, Violation};
use super::link::{Answer, Body, Refusal, RemoteOperation};
use super::pair::{Begun, Mark, Pair, Stall, UnderWay, brings};
use super::region::{LONGEST, Regions};
use super::state::State;
use crate::wire::{
    BLOCK, Completion, Control, Decoded, Entry, Event, Failed, Operation, Payload, Syndrome, Transport, producer_of,
};

/// One step of every queue pair; whether any of them did something.
pub(super) fn step_all(state: &mut State) -> bool {
    let numbers: Vec<u32> = state.pairs.keys().copied().collect();
    let mut worked = false;
    for qpn in numbers {
        // Taken out while it works: it may look at the others.
        if let Some(mut pair) = state.pairs.remove(&qpn) {
            worked |= step(state, &mut pair);
            state.pairs.insert(qpn, pair);
        }
    }
    worked
}

/// The answer to a request.
pub(super) fn answered(state: &mut State, qpn: u32, sequence: u64, answer: Answer) {
    let Some(mut pair) = state.pairs.remove(&qpn) else {
        return;
    };
    // An answer to something that was given up is late.
    if let Some(under_way) = pair.under_way.take_if(|under_way| under_way.sequence == sequence) {
        finish(state, &mut pair, under_way.decoded, answer);
    }
    state.pairs.insert(qpn, pair);
}

/// Gives up all that a queue pair has, from now on.
pub(super) fn fail(pair: &mut Pair) {
    pair.failed = true;
    pair.under_way = None;
    pair.stall = None;
    pair.begun = None;
}

fn step(state: &mut State, pair: &mut Pair) -> bool {
    let heard = listen(state, pair);
    if pair.failed {
        return flush(state, pair) | heard;
    }
    if pair.far.is_none() || pair.under_way.is_some() || pair.send.is_empty() || is_stalled(state, pair) {
        return heard;
    }
    begin(state, pair);
    true
}

/// Takes a doorbell. The register is cleared before the record is read, so that of two doorbells in a row none is missed: either
/// the second is still in the register, or the record is already the second's.
fn listen(state: &mut State, pair: &mut Pair) -> bool {
    let Ok(doorbell @ 1..) = pair.send.register.load_u64(0) else {
        return false;
    };
    let cleared = pair.send.register.store_u64(0, 0);
    fence(Ordering::SeqCst);
    let record = pair.send.record.load_u32(0).map(producer_of);
    let (Ok(()), Ok(record)) = (cleared, record) else {
        return false;
    };
    let (rung, index) = Control::rung(doorbell);
    let qpn = pair.qpn;
    let covered = record.wrapping_sub(index);
    let violation = if rung != qpn {
        Violation::WrongQueuePair { qpn, rung }
    } else if covered == 0 || covered > 1 << 15 {
        Violation::DoorbellBeforeRecord { qpn, index, record }
    } else if u32::from(record.wrapping_sub(pair.send.cursor)) > pair.send.depth.entries() {
        Violation::RecordBeyondQueue { qpn, record }
    } else {
        pair.send.producer = record;
        return true;
    };
    state.faults.note(violation);
    true
}

fn is_stalled(state: &State, pair: &mut Pair) -> bool {
    let stalled = match pair.stall {
        None => false,
        Some(Stall::Until(end)) => Instant::now() < end,
        Some(Stall::Completions { qpn, count }) => {
            // One that is gone holds up nobody.
            state.pairs.get(&qpn).is_some_and(|other| other.completed < count)
        }
    };
    if !stalled {
        pair.stall = None;
    }
    stalled
}

/// The entry at the cursor begins, or begins again.
fn begin(state: &mut State, pair: &mut Pair) {
    let begun = match pair.begun {
        Some(begun) => begun,
        None => {
            let begun = injected(state, pair);
            pair.begun = Some(begun);
            if pair.stall.is_some() {
                return;
            }
            begun
        }
    };
    let decoded = match fetch(state, pair) {
        Ok(decoded) => decoded,
        Err(decoded) => return refuse(state, pair, &decoded, Syndrome::LocalOperation, 0),
    };
    if let Some((syndrome, vendor)) = begun.fail {
        return refuse(state, pair, &Failing::of(&decoded), syndrome, vendor);
    }
    let request = match request(&state.regions, &decoded.entry) {
        Ok(Some(request)) => request,
        Ok(None) => return finish(state, pair, decoded, Answer::Done(Vec::new())),
        Err(syndrome) => return refuse(state, pair, &Failing::of(&decoded), syndrome, 0),
    };
    let Some(far) = pair.far else { return };
    pair.sequence += 1;
    let sequence = pair.sequence;
    match state.send(pair.qpn, far, sequence, Body::Request(request)) {
        Ok(()) => pair.under_way = Some(UnderWay { decoded, sequence }),
        Err(_) => refuse(state, pair, &Failing::of(&decoded), Syndrome::TransportRetry, 0),
    }
}

/// What is planned for the entry at the cursor.
fn injected(state: &mut State, pair: &mut Pair) -> Begun {
    let mut begun = Begun::default();
    for effect in state.faults.of_send(pair.qpn) {
        match effect {
            Effect::Fail { syndrome, vendor } => begun.fail = Some((syndrome, vendor)),
            Effect::Delay(duration) => pair.stall = Some(Stall::Until(Instant::now() + duration)),
            Effect::Behind { qpn } => {
                let count = state.pairs.get(&qpn).map_or(0, |other| other.completed + 1);
                pair.stall = Some(Stall::Completions { qpn, count });
            }
            Effect::Drop => begun.mark = Mark::Never,
            Effect::WrongOwner => begun.mark = Mark::WrongOwner,
            Effect::Stale => begun.mark = Mark::Stale,
            Effect::FailReceive { .. } => {}
        }
    }
    begun
}

/// What a completion says of an entry that fails: also of one that could not be read.
struct Failing {
    counter: u16,
    opcode: u8,
    blocks: u16,
}

impl Failing {
    fn of(decoded: &Decoded) -> Self {
        Self {
            counter: decoded.index,
            opcode: decoded.entry.operation.opcode() as u8,
            // At most 16.
            blocks: decoded.blocks as u16,
        }
    }

    /// The entry at the cursor, by what can be read of it: its opcode's byte, and its size if that makes sense.
    fn unread(pair: &Pair) -> Self {
        let first = pair.send.blocks(1).unwrap_or_default();
        let blocks = Control::decode(&first).map_or(1, |control| control.blocks() as u16);
        Self {
            counter: pair.send.cursor,
            opcode: first.get(3).copied().unwrap_or(0),
            blocks: blocks.min(pair.send.left()),
        }
    }
}

/// Reads the entry at the cursor.
fn fetch(state: &mut State, pair: &Pair) -> Result<Decoded, Failing> {
    let unread = |_| Failing::unread(pair);
    let first = pair.send.blocks(1).map_err(unread)?;
    let control = Control::decode(&first).map_err(|_| Failing::unread(pair))?;
    let (block, qpn) = (pair.send.cursor, pair.qpn);
    if control.index != block {
        let index = control.index;
        state.faults.note(Violation::WrongIndex { qpn, block, index });
        return Err(Failing::unread(pair));
    }
    if control.qpn != qpn || control.blocks() > usize::from(pair.send.left()) {
        return Err(Failing::unread(pair));
    }
    let bytes = pair.send.blocks(control.blocks()).map_err(unread)?;
    Entry::decode(&bytes, Transport::Connected).map_err(|_| Failing::unread(pair))
}

/// What an entry asks of the far side; `None` if nothing.
fn request(regions: &Regions, entry: &Entry) -> Result<Option<RemoteOperation>, Syndrome> {
    let solicited = entry.flags.solicited;
    let length = entry.payload.bytes();
    if length > LONGEST {
        return Err(Syndrome::LocalLength);
    }
    let bytes = || match &entry.payload {
        Payload::Inline(bytes) => Ok(bytes.clone()),
        Payload::Segments(segments) => regions.gather(segments).map_err(|_| Syndrome::LocalProtection),
    };
    let eight = if length == 8 {
        Ok(())
    } else {
        Err(Syndrome::LocalLength)
    };
    Ok(Some(match entry.operation {
        Operation::Nop => return Ok(None),
        Operation::Send { immediate } => RemoteOperation::Send {
            bytes: bytes()?,
            immediate,
            solicited,
        },
        Operation::Write { remote, immediate } => RemoteOperation::Write {
            remote,
            bytes: bytes()?,
            immediate,
            solicited,
        },
        Operation::Read { remote } => RemoteOperation::Read { remote, length },
        Operation::CompareSwap { remote, compare, swap } => {
            eight.map(|()| RemoteOperation::CompareSwap { remote, compare, swap })?
        }
        Operation::FetchAdd { remote, add } => eight.map(|()| RemoteOperation::FetchAdd { remote, add })?,
    }))
}

/// An entry has its answer.
fn finish(state: &mut State, pair: &mut Pair, decoded: Decoded, answer: Answer) {
    let failing = Failing::of(&decoded);
    let bytes = match answer {
        Answer::Done(bytes) => bytes,
        Answer::NotReady => return again(state, pair, &failing),
        Answer::Nobody => return refuse(state, pair, &failing, Syndrome::TransportRetry, 0),
        Answer::Refused(refusal) => {
            let syndrome = match refusal {
                Refusal::Invalid => Syndrome::RemoteInvalidRequest,
                Refusal::Access => Syndrome::RemoteAccess,
                Refusal::Operation => Syndrome::RemoteOperation,
            };
            return refuse(state, pair, &failing, syndrome, 0);
        }
    };
    let brought = brings(&decoded.entry.operation);
    if brought && let Payload::Segments(segments) = &decoded.entry.payload {
        if bytes.len() as u64 != decoded.entry.payload.bytes() {
            return refuse(state, pair, &failing, Syndrome::BadResponse, 0);
        }
        if state.regions.scatter(segments, &bytes).is_err() {
            return refuse(state, pair, &failing, Syndrome::LocalProtection, 0);
        }
    }
    let mark = pair.begun.take().unwrap_or_default().mark;
    pair.send.cursor = pair.send.cursor.wrapping_add(failing.blocks);
    if decoded.entry.flags.signalled {
        let event = Event::Sent { opcode: failing.opcode };
        let mut completion = Completion::new(event, pair.qpn, failing.counter);
        if brought {
            completion.bytes = bytes.len() as u32;
        }
        complete(state, pair, completion, mark);
    }
}

/// Nothing was posted there: once more, if there is patience left.
fn again(state: &mut State, pair: &mut Pair, failing: &Failing) {
    let begun = pair.begun.get_or_insert_default();
    if pair.patience.retries.is_some_and(|most| begun.retries >= most) {
        return refuse(state, pair, failing, Syndrome::ReceiverNotReady, 0);
    }
    begun.retries += 1;
    pair.stall = Some(Stall::Until(Instant::now() + pair.patience.pause));
}

/// An entry fails, and with it the queue pair.
fn refuse(state: &mut State, pair: &mut Pair, failing: &Failing, syndrome: Syndrome, vendor: u8) {
    let mark = pair.begun.take().unwrap_or_default().mark;
    fail(pair);
    give_up(state, pair, failing, syndrome, vendor, mark);
}

/// Completes an entry with an error, whether it is signalled or not.
fn give_up(state: &mut State, pair: &mut Pair, failing: &Failing, syndrome: Syndrome, vendor: u8, mark: Mark) {
    pair.send.cursor = pair.send.cursor.wrapping_add(failing.blocks);
    let failed = Failed {
        syndrome,
        vendor,
        opcode: failing.opcode,
    };
    let completion = Completion::new(Event::SendFailed(failed), pair.qpn, failing.counter);
    complete(state, pair, completion, mark);
}

fn complete(state: &mut State, pair: &mut Pair, mut completion: Completion, mark: Mark) {
    pair.completed += 1;
    state.clock += 1;
    if completion.event.failed().is_none() {
        completion.timestamp = state.clock;
    }
    if let Err(NoPlace) = pair.send_completions.write(&completion, mark) {
        let qpn = pair.qpn;
        state.faults.note(Violation::Overrun { qpn });
        fail(pair);
    }
}

/// A queue pair that failed completes all it has with that: what was rung, and what was posted.
fn flush(state: &mut State, pair: &mut Pair) -> bool {
    let mut worked = false;
    while !pair.send.is_empty() {
        let failing = Failing::unread(pair);
        give_up(state, pair, &failing, Syndrome::Flushed, FLUSHED, Mark::Well);
        worked = true;
    }
    while pair.receive.is_posted() {
        let (counter, _) = pair.receive.take();
        super::responder::failed(state, pair, counter, Syndrome::Flushed, FLUSHED);
        worked = true;
    }
    worked
}

/// What ConnectX cards say of what was flushed (`vendor err 249` in many a log).
const FLUSHED: u8 = 0xf9;

/// A block has the bytes of a control segment.
const _: () = assert!(BLOCK >= 16);
