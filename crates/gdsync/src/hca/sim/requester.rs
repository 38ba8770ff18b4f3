//! The requester: one send entry of each queue pair after the other, from its doorbell to its completion.

use std::time::Instant;

use super::failure::{complete, fail, flush, refuse};
use super::fault::{Effect, Planned};
use super::fetch::{Failing, fetch, listen, request};
use super::link::{Answer, Body, RemoteError};
use super::pair::{Begun, InFlight, Mark, Pair, Stall, brings};
use super::state::State;
use crate::wire::{Completion, Decoded, Event, Payload, Syndrome};

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
    if let Some(in_flight) = pair
        .in_flight
        .take_if(|in_flight| in_flight.sequence == sequence)
    {
        finish(state, &mut pair, in_flight.decoded, answer);
    }
    state.pairs.insert(qpn, pair);
}

/// Nothing more will be done: what was rung and posted completes with that.
pub(super) fn give_up_all(state: &mut State) {
    for (qpn, mut pair) in std::mem::take(&mut state.pairs) {
        listen(state, &mut pair);
        fail(&mut pair);
        flush(state, &mut pair);
        state.pairs.insert(qpn, pair);
    }
}

fn step(state: &mut State, pair: &mut Pair) -> bool {
    let heard = listen(state, pair);
    if pair.failed {
        return flush(state, pair) | heard;
    }
    if pair.peer.is_none()
        || pair.in_flight.is_some()
        || pair.send.is_empty()
        || is_stalled(state, pair)
    {
        return heard;
    }
    begin(state, pair);
    true
}

fn is_stalled(state: &State, pair: &mut Pair) -> bool {
    let stalled = match pair.stall {
        None => false,
        Some(Stall::Until(end)) => Instant::now() < end,
        Some(Stall::Completions { qpn, count }) => {
            // One that is gone holds up nobody.
            state
                .pairs
                .get(&qpn)
                .is_some_and(|other| other.completed < count)
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
    let Some(peer) = pair.peer else { return };
    pair.sequence += 1;
    let sequence = pair.sequence;
    match state.send(pair.qpn, peer, sequence, Body::Request(request)) {
        Ok(()) => pair.in_flight = Some(InFlight { decoded, sequence }),
        Err(_) => refuse(
            state,
            pair,
            &Failing::of(&decoded),
            Syndrome::TransportRetry,
            0,
        ),
    }
}

/// What is planned for the entry at the cursor.
fn injected(state: &mut State, pair: &mut Pair) -> Begun {
    let mut begun = Begun::default();
    for Planned { effect, count, .. } in state.faults.of_send(pair.qpn) {
        match effect {
            Effect::Fail { syndrome, vendor } => begun.fail = Some((syndrome, vendor)),
            Effect::Delay(duration) => pair.stall = Some(Stall::Until(Instant::now() + duration)),
            Effect::Behind { qpn } => pair.stall = Some(Stall::Completions { qpn, count }),
            Effect::Drop => begun.mark = Mark::Never,
            Effect::WrongOwner => begun.mark = Mark::WrongOwner,
            Effect::Stale => begun.mark = Mark::Stale,
            Effect::FailReceive { .. } => {}
        }
    }
    begun
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
                RemoteError::Invalid => Syndrome::RemoteInvalidRequest,
                RemoteError::Access => Syndrome::RemoteAccess,
                RemoteError::Operation => Syndrome::RemoteOperation,
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
        let event = Event::Sent {
            opcode: failing.opcode,
        };
        let mut completion = Completion::new(event, pair.qpn, failing.counter);
        if brought {
            completion.bytes = bytes.len() as u32;
        }
        complete(state, pair, completion, mark);
    }
}

/// Nothing was posted there: once more, if there is timeout left.
fn again(state: &mut State, pair: &mut Pair, failing: &Failing) {
    let begun = pair.begun.get_or_insert_default();
    if pair
        .timeout
        .retries
        .is_some_and(|most| begun.retries >= most)
    {
        return refuse(state, pair, failing, Syndrome::ReceiverNotReady, 0);
    }
    begun.retries += 1;
    pair.stall = Some(Stall::Until(Instant::now() + pair.timeout.pause));
}
