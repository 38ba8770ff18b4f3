//! Latency: one message there, one back, over and over, each answered as soon as it is seen.

use std::cell::Cell;
use std::time::Instant;

use super::connected::{ConnectedQueuePair, Waiting};
use super::control::Control;
use super::end::End;
use super::kind::Kind;
use super::queue_pair::{BUFFERS, Post};
use super::stream::operation;
use crate::probe::failure::StepError;

/// Of so many requests one is told, which is fewer than a queue holds.
const TOLD: u32 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    We,
    They,
}

/// Seconds from one turn's begin to the next's. What is read is read by one end; the other does nothing.
pub fn play(
    end: &End,
    connected: &mut ConnectedQueuePair,
    kind: Kind,
    (bytes, count): (usize, u32),
    first: First,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    match kind {
        Kind::Write => written(end, connected, bytes, count, first, control),
        Kind::Read | Kind::FetchAdd | Kind::CompareSwap => {
            fetched(connected, kind, bytes, count, control)
        }
        Kind::Send | Kind::SendImmediate | Kind::WriteImmediate => {
            sent(end, connected, kind, (bytes, count), first, control)
        }
    }
}

/// Buffers for what is received, before the other end may send.
pub fn prepare(
    end: &End,
    connected: &mut ConnectedQueuePair,
    kind: Kind,
    bytes: usize,
    count: u32,
) -> Result<(), StepError> {
    let half = connected.half;
    // What the other end writes to.
    end.store.clear(half, bytes)?;
    if kind.is_received() {
        for id in 0..count.min(BUFFERS) {
            connected.receive(u64::from(id), half, bytes)?;
        }
    }
    Ok(())
}

/// The last byte of a message tells that it is there: a NIC writes in order.
fn written(
    end: &End,
    connected: &mut ConnectedQueuePair,
    bytes: usize,
    count: u32,
    first: First,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    let half = connected.half;
    let request = Post {
        inline: bytes <= connected.inline_bytes(),
        ..Post::new(operation(Kind::Write, connected.remote(half)), 0, bytes)
    };
    // Never what is there: the one before it, or 0.
    let mark = |turn: u32| (turn % 255 + 1) as u8;
    let send = |connected: &mut ConnectedQueuePair, control: &mut Control, turn| {
        end.store.store(bytes - 1, mark(turn))?;
        post(connected, request, (turn, count), control)
    };
    let arrives = |connected: &mut ConnectedQueuePair, control: &mut Control, turn| {
        let mut waiting = Waiting::new(end.timeout);
        while end.store.load(half + bytes - 1)? != mark(turn) {
            waiting.look("a write of the remote end", control)?;
            if waiting.is_long() {
                // A request that failed tells why.
                connected.sent.look()?;
            }
        }
        Ok(())
    };
    alternate((connected, control), count, first, send, arrives)
}

fn sent(
    end: &End,
    connected: &mut ConnectedQueuePair,
    kind: Kind,
    (bytes, count): (usize, u32),
    first: First,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    let half = connected.half;
    let request = Post {
        inline: bytes <= connected.inline_bytes(),
        ..Post::new(operation(kind, connected.remote(half)), 0, bytes)
    };
    let mut posted = count.min(BUFFERS);
    let taken = Cell::new(false);
    let send = |connected: &mut ConnectedQueuePair, control: &mut Control, turn| {
        end.leave(0, bytes)?;
        post(connected, request, (turn, count), control)?;
        // Another buffer for the one that was taken, while the message is on its way: others are there until then.
        if taken.take() && posted < count {
            posted += 1;
            connected.receive(0, half, bytes)?;
        }
        Ok(())
    };
    let arrives = |connected: &mut ConnectedQueuePair, control: &mut Control, _| {
        let arrived = connected.received.wait(control).map(drop);
        if arrived.is_err() {
            // What was given up tells less than the request that failed.
            connected.sent.look()?;
        }
        arrived?;
        taken.set(true);
        end.arrive(half, bytes)
    };
    alternate((connected, control), count, first, send, arrives)
}

/// Posts a turn's request. That it was sent is told of one in a few: the answer of the other end tells as much of the others.
fn post(
    connected: &mut ConnectedQueuePair,
    request: Post,
    (turn, count): (u32, u32),
    control: &mut Control,
) -> Result<(), StepError> {
    let signalled = turn % TOLD == 0 || turn == count;
    connected.send(Post {
        signalled,
        ..request
    })?;
    match signalled {
        true => connected.sent.wait(control).map(drop),
        false => Ok(()),
    }
}

/// One turn after the other, by the numbers from 1: seconds from one of this end to its next.
fn alternate(
    (connected, control): (&mut ConnectedQueuePair, &mut Control),
    count: u32,
    first: First,
    mut send: impl FnMut(&mut ConnectedQueuePair, &mut Control, u32) -> Result<(), StepError>,
    mut arrives: impl FnMut(&mut ConnectedQueuePair, &mut Control, u32) -> Result<(), StepError>,
) -> Result<Vec<f64>, StepError> {
    let mut times = Vec::with_capacity(count as usize);
    let mut begun = Instant::now();
    for turn in 1..=count {
        if first == First::They {
            arrives(connected, control, turn)?;
        }
        send(connected, control, turn)?;
        if first == First::We {
            arrives(connected, control, turn)?;
        }
        let now = Instant::now();
        times.push(now.duration_since(begun).as_secs_f64());
        begun = now;
    }
    Ok(times)
}

fn fetched(
    connected: &mut ConnectedQueuePair,
    kind: Kind,
    bytes: usize,
    count: u32,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    let request = Post::new(operation(kind, connected.remote(0)), 0, bytes);
    let mut times = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let begun = Instant::now();
        connected.send(request)?;
        connected.sent.wait(control)?;
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(times)
}
