//! Error CQEs of the requester, and flushing of failed queue pairs.

use super::completer::NoPlace;
use super::fault::Violation;
use super::fetch::WqeInfo;
use super::pair::{Mark, SimQueuePair};
use super::responder;
use super::state::State;
use crate::wire::{Completion, Event, Failed, Syndrome};

/// Moves a queue pair to the error state.
pub(super) fn fail(pair: &mut SimQueuePair) {
    pair.failed = true;
    pair.in_flight = None;
    pair.stall = None;
    pair.attempt = None;
}

/// Fails a WQE and its queue pair.
pub(super) fn fail_wqe(
    state: &mut State,
    pair: &mut SimQueuePair,
    wqe: &WqeInfo,
    syndrome: Syndrome,
    vendor: u8,
) {
    let mark = pair.attempt.take().unwrap_or_default().mark;
    fail(pair);
    complete_error(state, pair, wqe, syndrome, vendor, mark);
}

/// Writes the error CQE of a WQE, signalled or not.
fn complete_error(
    state: &mut State,
    pair: &mut SimQueuePair,
    wqe: &WqeInfo,
    syndrome: Syndrome,
    vendor: u8,
    mark: Mark,
) {
    pair.send.cursor = pair.send.cursor.wrapping_add(wqe.blocks);
    let failed = Failed { syndrome, vendor, opcode: wqe.opcode };
    let completion = Completion::new(Event::SendFailed(failed), pair.qpn, wqe.counter);
    complete(state, pair, completion, mark);
}

pub(super) fn complete(
    state: &mut State,
    pair: &mut SimQueuePair,
    mut completion: Completion,
    mark: Mark,
) {
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

/// Flushes sends and receives of a failed queue pair. True if there were any.
pub(super) fn flush(state: &mut State, pair: &mut SimQueuePair) -> bool {
    let mut worked = false;
    while !pair.send.is_empty() {
        let wqe = WqeInfo::peek(pair);
        complete_error(state, pair, &wqe, Syndrome::Flushed, FLUSHED, Mark::Valid);
        worked = true;
    }
    while pair.receive.is_posted() {
        let (counter, _) = pair.receive.take();
        responder::failed(state, pair, counter, Syndrome::Flushed, FLUSHED);
        worked = true;
    }
    worked
}

/// Vendor syndrome of flushed WQEs on ConnectX NICs (`vendor err 249` in logs).
const FLUSHED: u8 = 0xf9;
