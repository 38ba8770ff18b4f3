//! The requester: executes the send WQEs of each queue pair, one at a time.

use std::time::Instant;

use super::failure::{complete, fail, fail_wqe, flush};
use super::fault::{Effect, Injection};
use super::fetch::{WqeInfo, datagram, fetch, poll_doorbell, request};
use super::link::{Answer, Body, RemoteError};
use super::pair::{Attempt, InFlight, Mark, SimQueuePair, Stall, brings};
use super::state::State;
use crate::hca::Endpoint;
use crate::wire::{Completion, Decoded, Event, Payload, Syndrome, Transport};

/// One step of every queue pair. True if there was work.
pub(super) fn step_all(state: &mut State) -> bool {
    let numbers: Vec<u32> = state.pairs.keys().copied().collect();
    let mut worked = false;
    for qpn in numbers {
        // Removed during the step, which may read the others.
        if let Some(mut pair) = state.pairs.remove(&qpn) {
            worked |= step(state, &mut pair);
            state.pairs.insert(qpn, pair);
        }
    }
    worked
}

/// Handles the answer to a request.
pub(super) fn answer_arrived(state: &mut State, qpn: u32, sequence: u64, answer: Answer) {
    let Some(mut pair) = state.pairs.remove(&qpn) else {
        return;
    };
    // Ignore a late answer to a flushed request.
    if let Some(in_flight) = pair.in_flight.take_if(|in_flight| in_flight.sequence == sequence) {
        finish(state, &mut pair, in_flight.decoded, answer);
    }
    state.pairs.insert(qpn, pair);
}

/// Fails all queue pairs and flushes their work.
pub(super) fn fail_all(state: &mut State) {
    for (qpn, mut pair) in std::mem::take(&mut state.pairs) {
        poll_doorbell(state, &mut pair);
        fail(&mut pair);
        flush(state, &mut pair);
        state.pairs.insert(qpn, pair);
    }
}

fn step(state: &mut State, pair: &mut SimQueuePair) -> bool {
    let rung = poll_doorbell(state, pair);
    if pair.failed {
        return flush(state, pair) | rung;
    }
    let is_ready = pair.peer.is_some() || pair.transport == Transport::Datagram;
    if !is_ready || pair.in_flight.is_some() || pair.send.is_empty() || is_stalled(state, pair) {
        return rung;
    }
    start(state, pair);
    true
}

fn is_stalled(state: &State, pair: &mut SimQueuePair) -> bool {
    let stalled = match pair.stall {
        None => false,
        Some(Stall::Until(end)) => Instant::now() < end,
        Some(Stall::Completions { qpn, count }) => {
            // A destroyed queue pair delays no other.
            state.pairs.get(&qpn).is_some_and(|other| other.completed < count)
        }
    };
    if !stalled {
        pair.stall = None;
    }
    stalled
}

/// Starts the WQE at the cursor, or retries it.
fn start(state: &mut State, pair: &mut SimQueuePair) {
    let attempt = match pair.attempt {
        Some(attempt) => attempt,
        None => {
            let attempt = inject(state, pair);
            pair.attempt = Some(attempt);
            if pair.stall.is_some() {
                return;
            }
            attempt
        }
    };
    let decoded = match fetch(state, pair) {
        Ok(decoded) => decoded,
        Err(decoded) => return fail_wqe(state, pair, &decoded, Syndrome::LocalOperation, 0),
    };
    if let Some((syndrome, vendor)) = attempt.fail {
        return fail_wqe(state, pair, &WqeInfo::of(&decoded), syndrome, vendor);
    }
    if let Some(to) = &decoded.entry.datagram {
        return match datagram(&state.regions, &decoded.entry, to, pair.key) {
            Ok(body) => {
                let remote = Endpoint::new(to.path.lid, to.qpn);
                // Ignored: a datagram without a receiver is lost.
                let _ = state.send(pair.qpn, remote, 0, body);
                finish(state, pair, decoded, Answer::Done(Vec::new()));
            }
            Err(syndrome) => fail_wqe(state, pair, &WqeInfo::of(&decoded), syndrome, 0),
        };
    }
    let request = match request(&state.regions, &decoded.entry) {
        Ok(Some(request)) => request,
        Ok(None) => return finish(state, pair, decoded, Answer::Done(Vec::new())),
        Err(syndrome) => return fail_wqe(state, pair, &WqeInfo::of(&decoded), syndrome, 0),
    };
    let Some(peer) = pair.peer else { return };
    pair.sequence += 1;
    let sequence = pair.sequence;
    match state.send(pair.qpn, peer, sequence, Body::Request(request)) {
        Ok(()) => pair.in_flight = Some(InFlight { decoded, sequence }),
        Err(_) => fail_wqe(state, pair, &WqeInfo::of(&decoded), Syndrome::TransportRetry, 0),
    }
}

/// Takes the injections for the WQE at the cursor.
fn inject(state: &mut State, pair: &mut SimQueuePair) -> Attempt {
    let mut attempt = Attempt::default();
    for Injection { effect, count, .. } in state.faults.for_send(pair.qpn) {
        match effect {
            Effect::Fail { syndrome, vendor } => attempt.fail = Some((syndrome, vendor)),
            Effect::Delay(duration) => pair.stall = Some(Stall::Until(Instant::now() + duration)),
            Effect::Behind { qpn } => pair.stall = Some(Stall::Completions { qpn, count }),
            Effect::Drop => attempt.mark = Mark::Never,
            Effect::WrongOwner => attempt.mark = Mark::WrongOwner,
            Effect::Stale => attempt.mark = Mark::Stale,
            Effect::FailReceive { .. } => {}
        }
    }
    attempt
}

/// Completes a WQE that has its answer.
fn finish(state: &mut State, pair: &mut SimQueuePair, decoded: Decoded, answer: Answer) {
    let wqe = WqeInfo::of(&decoded);
    let bytes = match answer {
        Answer::Done(bytes) => bytes,
        Answer::NotReady => return retry(state, pair, &wqe),
        Answer::NotConnected => return fail_wqe(state, pair, &wqe, Syndrome::TransportRetry, 0),
        Answer::Refused(error) => {
            let syndrome = match error {
                RemoteError::Invalid => Syndrome::RemoteInvalidRequest,
                RemoteError::Access => Syndrome::RemoteAccess,
                RemoteError::Operation => Syndrome::RemoteOperation,
            };
            return fail_wqe(state, pair, &wqe, syndrome, 0);
        }
    };
    let brought = brings(&decoded.entry.operation);
    if brought && let Payload::Segments(segments) = &decoded.entry.payload {
        if bytes.len() as u64 != decoded.entry.payload.bytes() {
            return fail_wqe(state, pair, &wqe, Syndrome::BadResponse, 0);
        }
        if state.regions.scatter(segments, &bytes).is_err() {
            return fail_wqe(state, pair, &wqe, Syndrome::LocalProtection, 0);
        }
    }
    let mark = pair.attempt.take().unwrap_or_default().mark;
    pair.send.cursor = pair.send.cursor.wrapping_add(wqe.blocks);
    if decoded.entry.flags.signalled {
        let event = Event::Sent { opcode: wqe.opcode };
        let mut completion = Completion::new(event, pair.qpn, wqe.counter);
        if brought {
            completion.bytes = bytes.len() as u32;
        }
        complete(state, pair, completion, mark);
    }
}

/// Retries after [`Answer::NotReady`], up to the limit.
fn retry(state: &mut State, pair: &mut SimQueuePair, wqe: &WqeInfo) {
    let attempt = pair.attempt.get_or_insert_default();
    if pair.timeout.retries.is_some_and(|most| attempt.retries >= most) {
        return fail_wqe(state, pair, wqe, Syndrome::ReceiverNotReady, 0);
    }
    attempt.retries += 1;
    pair.stall = Some(Stall::Until(Instant::now() + pair.timeout.pause));
}
