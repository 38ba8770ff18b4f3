//! Converts verbs completions to CQEs, and flushes failed queue pairs.

use std::time::{Duration, Instant};

use verbs::{Completion, CompletionQueue, Operation};

use super::pair::{FLUSHED, Link, ProxyQueuePair};
use super::{sends, syndrome};
use crate::wire::{Event, Syndrome};

/// Polls verbs completions. True if there were any.
pub(super) fn take(pair: &mut ProxyQueuePair) -> bool {
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

/// Fails a queue pair: polls the remaining completions and flushes all other work.
pub(super) fn fail(pair: &mut ProxyQueuePair) {
    pair.failed = true;
    // Stop the device first, so that no completed work is reported as flushed.
    let _ = match &mut pair.link {
        Link::Init(link) => link.fail(),
        Link::Ready(link) => link.fail(),
        Link::Borrowed(borrowed) => borrowed.pair.give_up(),
        Link::Connecting | Link::Gone => Ok(()),
    };
    take(pair);
    match pair.link {
        // It belongs to the program, so wait until the device has completed all posted work.
        Link::Borrowed(_) => drain(pair),
        // Destroys it, so the device stops accessing its memory.
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
    // Possibly the last poll of the doorbell.
    sends::poll_doorbell(pair);
    flush(pair);
}

/// Timeout of a device's flush. Kernels and NICs flush at once.
const FLUSH: Duration = Duration::from_millis(200);

/// Polls until the device has flushed all posted work.
fn drain(pair: &mut ProxyQueuePair) {
    let start = Instant::now();
    let is_busy = |pair: &ProxyQueuePair| pair.posted > 0 || !pair.receives.is_empty();
    while is_busy(pair) && start.elapsed() < FLUSH {
        if !take(pair) {
            std::thread::yield_now();
        }
    }
}

/// Flushes work posted after the failure. True if there was any.
pub(super) fn flush(pair: &mut ProxyQueuePair) -> bool {
    let mut worked = false;
    while !pair.send.is_empty() {
        let counter = pair.send.cursor;
        let (opcode, blocks) = pair.send.peek();
        pair.send.cursor = counter.wrapping_add(blocks);
        pair.send_failed(counter, opcode, Syndrome::Flushed, 0);
        worked = true;
    }
    while pair.receive.is_posted() {
        let (counter, _) = pair.receive.take();
        pair.receive_failed(counter, Syndrome::Flushed, 0);
        worked = true;
    }
    worked
}

/// Up to 16 completions of a queue. If polling fails, the queue pair fails.
fn polled(
    pair: &mut ProxyQueuePair,
    queue: impl Fn(&ProxyQueuePair) -> &CompletionQueue,
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

fn sent(pair: &mut ProxyQueuePair, completion: &Completion) {
    let verdict = completion.outcome.map(|_| ()).map_err(syndrome::of);
    for in_flight in &mut pair.sends {
        if in_flight.id > completion.id {
            break;
        }
        if in_flight.id == completion.id {
            in_flight.verdict = Some(verdict);
        } else if in_flight.verdict.is_none() {
            // A reliable connection completes in order.
            in_flight.verdict = Some(Ok(()));
        }
    }
}

fn received(pair: &mut ProxyQueuePair, completion: &Completion) {
    // The work request's id is the WQE counter.
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
                (Operation::ReceiveWrite, immediate) => {
                    Event::Written { immediate: immediate.unwrap_or(0) }
                }
                (_, Some(immediate)) => Event::ReceivedImmediate { immediate },
                (_, None) => Event::Received,
            };
            pair.arrived(counter, event, &done);
        }
    }
}
