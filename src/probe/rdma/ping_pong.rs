//! Latency: ping-pong messages, each answered as soon as it arrives.

use std::cell::Cell;
use std::time::Instant;

use super::connected::{ConnectedQueuePair, PollTimer};
use super::control::Control;
use super::end::End;
use super::kind::Kind;
use super::queue_pair::{BUFFERS, Post};
use super::stream::operation;
use crate::probe::failure::StepError;

/// One in so many requests is signalled: fewer than a queue holds.
const SIGNAL_INTERVAL: u32 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    Local,
    Remote,
}

/// Returns the seconds of each iteration. Reads and atomics are one-sided: the remote end does nothing.
pub fn ping_pong(
    end: &End,
    connected: &mut ConnectedQueuePair,
    kind: Kind,
    (bytes, count): (usize, u32),
    first: First,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    match kind {
        Kind::Write => write(end, connected, bytes, count, first, control),
        Kind::Read | Kind::FetchAdd | Kind::CompareSwap => {
            fetch(connected, kind, bytes, count, control)
        }
        Kind::Send | Kind::SendImmediate | Kind::WriteImmediate => {
            send(end, connected, kind, (bytes, count), first, control)
        }
    }
}

/// Posts receive buffers, before the remote end may send.
pub fn prepare(
    end: &End,
    connected: &mut ConnectedQueuePair,
    kind: Kind,
    bytes: usize,
    count: u32,
) -> Result<(), StepError> {
    let half = connected.half;
    // The target of the remote end's writes.
    end.store.clear(half, bytes)?;
    if kind.is_received() {
        for id in 0..count.min(BUFFERS) {
            connected.receive(u64::from(id), half, bytes)?;
        }
    }
    Ok(())
}

/// The last byte of a message shows that it arrived: a NIC writes in order.
fn write(
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
    // Differs from the previous mark, and from 0.
    let mark = |iteration: u32| (iteration % 255 + 1) as u8;
    let send = |connected: &mut ConnectedQueuePair, control: &mut Control, iteration| {
        end.store.store(bytes - 1, mark(iteration))?;
        post(connected, &request, (iteration, count), control)
    };
    let wait_arrival = |connected: &mut ConnectedQueuePair, control: &mut Control, iteration| {
        let mut timer = PollTimer::new(end.timeout);
        while end.store.load(half + bytes - 1)? != mark(iteration) {
            timer.tick("a write of the remote end", control)?;
            if timer.is_due() {
                // A failed request is the better error.
                connected.sent.poll()?;
            }
        }
        Ok(())
    };
    alternate((connected, control), count, first, send, wait_arrival)
}

fn send(
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
    let has_arrived = Cell::new(false);
    let send = |connected: &mut ConnectedQueuePair, control: &mut Control, iteration| {
        end.leave(0, bytes)?;
        post(connected, &request, (iteration, count), control)?;
        // Replaces the used buffer while the message is in flight; the other buffers are still posted.
        if has_arrived.take() && posted < count {
            posted += 1;
            connected.receive(0, half, bytes)?;
        }
        Ok(())
    };
    let wait_arrival = |connected: &mut ConnectedQueuePair, control: &mut Control, _| {
        let arrived = connected.received.wait(control).map(drop);
        if arrived.is_err() {
            // A failed request is a better error than the timeout.
            connected.sent.poll()?;
        }
        arrived?;
        has_arrived.set(true);
        end.arrive(half, bytes)
    };
    alternate((connected, control), count, first, send, wait_arrival)
}

/// Posts the request of an iteration. One in [`SIGNAL_INTERVAL`] is signalled: the reply proves that the others were sent.
fn post(
    connected: &mut ConnectedQueuePair,
    request: &Post,
    (iteration, count): (u32, u32),
    control: &mut Control,
) -> Result<(), StepError> {
    if connected.is_unordered() {
        // Each has a completion, which may come later than the reply: waiting for it would add to the round trip.
        connected.sent.poll()?;
        return connected.send(request);
    }
    let signalled = iteration % SIGNAL_INTERVAL == 0 || iteration == count;
    connected.send(&Post { signalled, ..*request })?;
    if signalled { connected.sent.wait(control).map(drop) } else { Ok(()) }
}

/// Runs the iterations, counted from 1, and returns the seconds of each.
fn alternate(
    (connected, control): (&mut ConnectedQueuePair, &mut Control),
    count: u32,
    first: First,
    mut send: impl FnMut(&mut ConnectedQueuePair, &mut Control, u32) -> Result<(), StepError>,
    mut wait_arrival: impl FnMut(&mut ConnectedQueuePair, &mut Control, u32) -> Result<(), StepError>,
) -> Result<Vec<f64>, StepError> {
    let mut times = Vec::with_capacity(count as usize);
    let mut begun = Instant::now();
    for iteration in 1..=count {
        if first == First::Remote {
            wait_arrival(connected, control, iteration)?;
        }
        send(connected, control, iteration)?;
        if first == First::Local {
            wait_arrival(connected, control, iteration)?;
        }
        let now = Instant::now();
        times.push(now.duration_since(begun).as_secs_f64());
        begun = now;
    }
    Ok(times)
}

fn fetch(
    connected: &mut ConnectedQueuePair,
    kind: Kind,
    bytes: usize,
    count: u32,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    let request = Post::new(operation(kind, connected.remote(0)), 0, bytes);
    let mut times = Vec::with_capacity(count as usize);
    let mut begun = Instant::now();
    for _ in 0..count {
        connected.send(&request)?;
        connected.sent.wait(control)?;
        let now = Instant::now();
        times.push(now.duration_since(begun).as_secs_f64());
        begun = now;
    }
    Ok(times)
}
