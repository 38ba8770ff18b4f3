//! What verbs complete becomes completion entries; and how a queue pair is given up.

use std::time::{Duration, Instant};

use verbs::{Completion, CompletionQueue, Operation};

use super::pair::{FLUSHED, Link, Pair};
use super::{sends, syndrome};
use crate::wire::{Event, Syndrome};

/// Takes what verbs have completed; whether there was anything.
pub(super) fn take(pair: &mut Pair) -> bool {
    let mut worked = false;
    while let Some(completions) = polled(pair, |pair| &pair.sent) {
        for completion in completions.into_iter().flatten() {
            sent(pair, &completion);
        }
        pair.retire();
        worked = true;
    }
    pair.retire();
    while let Some(completions) = polled(pair, |pair| &pair.received) {
        for completion in completions.into_iter().flatten() {
            received(pair, &completion);
        }
        worked = true;
    }
    worked
}

/// Gives a queue pair up: what verbs completed before is taken, all else is flushed.
pub(super) fn fail(pair: &mut Pair) {
    pair.failed = true;
    // Nothing arrives from now on, so nothing that arrived is called flushed.
    let _ = match &mut pair.link {
        Link::Init(link) => link.fail(),
        Link::Ready(link) => link.fail(),
        Link::Borrowed(borrowed) => borrowed.pair.give_up(),
        Link::Connecting | Link::Gone => Ok(()),
    };
    take(pair);
    match pair.link {
        // The program has it still. What it posted it is told of once the device is done with it, as verbs promise.
        Link::Borrowed(_) => drain(pair),
        // What verbs still have they have no more, and no device writes its memory.
        _ => pair.link = Link::Gone,
    }
    for in_flight in &mut pair.sends {
        in_flight.verdict = Some(Err(FLUSHED));
    }
    pair.retire();
    while let Some(counter) = pair.receives.pop_front() {
        pair.receive_failed(counter, Syndrome::Flushed, 0);
    }
    if let Some((counter, _)) = pair.unusable.take() {
        pair.receive_failed(counter, Syndrome::Flushed, 0);
    }
    // It may be the last time that somebody looks.
    sends::listen(pair);
    flush(pair);
}

/// How long a device has to flush what a queue pair of a program had posted. Kernels and NICs do it at once.
const FLUSH: Duration = Duration::from_millis(200);

/// Takes what the device flushes, until it has nothing more.
fn drain(pair: &mut Pair) {
    let begun = Instant::now();
    let has = |pair: &Pair| pair.posted > 0 || !pair.receives.is_empty();
    while has(pair) && begun.elapsed() < FLUSH {
        if !take(pair) {
            std::thread::yield_now();
        }
    }
}

/// What is rung and posted after that; whether anything was.
pub(super) fn flush(pair: &mut Pair) -> bool {
    let mut worked = false;
    while !pair.send.is_empty() {
        let (entry, blocks) = sends::unread(pair);
        pair.send.cursor = pair.send.cursor.wrapping_add(blocks);
        pair.send_failed(entry.counter, entry.opcode, Syndrome::Flushed, 0);
        worked = true;
    }
    while pair.receive.is_posted() {
        let (counter, _) = pair.receive.take();
        pair.receive_failed(counter, Syndrome::Flushed, 0);
        worked = true;
    }
    worked
}

/// Some completions of a queue, if there are any. A queue that cannot be asked is lost, and the queue pair with it.
fn polled(
    pair: &mut Pair,
    queue: impl Fn(&Pair) -> &CompletionQueue,
) -> Option<[Option<Completion>; 16]> {
    let mut taken = [None; 16];
    match queue(pair).poll(&mut taken) {
        Ok(0) => None,
        Ok(_) => Some(taken),
        Err(_) => {
            pair.broken = true;
            None
        }
    }
}

fn sent(pair: &mut Pair, completion: &Completion) {
    let verdict = completion.outcome.map(|_| ()).map_err(syndrome::of);
    for in_flight in &mut pair.sends {
        if in_flight.id > completion.id {
            break;
        }
        if in_flight.id == completion.id {
            in_flight.verdict = Some(verdict);
        } else if in_flight.verdict.is_none() {
            // In a reliable connection what comes before it is done.
            in_flight.verdict = Some(Ok(()));
        }
    }
}

fn received(pair: &mut Pair, completion: &Completion) {
    // The number it was given is its counter.
    let counter = completion.id as u16;
    let Some(position) = pair.receives.iter().position(|&posted| posted == counter) else {
        return;
    };
    pair.receives.drain(..=position);
    match completion.outcome {
        Err(failure) => {
            let (syndrome, vendor) = syndrome::of(failure);
            pair.broken = true;
            pair.receive_failed(counter, syndrome, vendor);
        }
        Ok(done) => {
            let event = match (done.operation, done.immediate) {
                (Operation::ReceiveWrite, immediate) => Event::Written {
                    immediate: immediate.unwrap_or(0),
                },
                (_, Some(immediate)) => Event::ReceivedImmediate { immediate },
                (_, None) => Event::Received,
            };
            pair.arrived(counter, event, done.bytes);
        }
    }
}
