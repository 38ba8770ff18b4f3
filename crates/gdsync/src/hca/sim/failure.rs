//! How the requester's entries fail, and what becomes of a queue pair then.

use super::completer::NoPlace;
use super::fault::Violation;
use super::fetch::Failing;
use super::pair::{Mark, Pair};
use super::responder;
use super::state::State;
use crate::wire::{Completion, Event, Failed, Syndrome};

/// Gives up all that a queue pair has, from now on.
pub(super) fn fail(pair: &mut Pair) {
    pair.failed = true;
    pair.in_flight = None;
    pair.stall = None;
    pair.begun = None;
}

/// An entry fails, and with it the queue pair.
pub(super) fn refuse(
    state: &mut State,
    pair: &mut Pair,
    failing: &Failing,
    syndrome: Syndrome,
    vendor: u8,
) {
    let mark = pair.begun.take().unwrap_or_default().mark;
    fail(pair);
    give_up(state, pair, failing, syndrome, vendor, mark);
}

/// Completes an entry with an error, whether it is signalled or not.
fn give_up(
    state: &mut State,
    pair: &mut Pair,
    failing: &Failing,
    syndrome: Syndrome,
    vendor: u8,
    mark: Mark,
) {
    pair.send.cursor = pair.send.cursor.wrapping_add(failing.blocks);
    let failed = Failed {
        syndrome,
        vendor,
        opcode: failing.opcode,
    };
    let completion = Completion::new(Event::SendFailed(failed), pair.qpn, failing.counter);
    complete(state, pair, completion, mark);
}

pub(super) fn complete(state: &mut State, pair: &mut Pair, mut completion: Completion, mark: Mark) {
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
pub(super) fn flush(state: &mut State, pair: &mut Pair) -> bool {
    let mut worked = false;
    while !pair.send.is_empty() {
        let failing = Failing::unread(pair);
        give_up(
            state,
            pair,
            &failing,
            Syndrome::Flushed,
            FLUSHED,
            Mark::Well,
        );
        worked = true;
    }
    while pair.receive.is_posted() {
        let (counter, _) = pair.receive.take();
        responder::failed(state, pair, counter, Syndrome::Flushed, FLUSHED);
        worked = true;
    }
    worked
}

/// What ConnectX NICs say of what was flushed (`vendor err 249` in many a log).
const FLUSHED: u8 = 0xf9;
