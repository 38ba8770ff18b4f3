//! Bandwidth: pipelined requests, timed by their completions.

use std::time::Instant;

use gdsync::wire::{Operation, RemoteAddress};

use super::connected::{ConnectedQueuePair, PollTimer};
use super::control::{Control, Flow};
use super::end::End;
use super::kind::Kind;
use super::queue_pair::{BUFFERS, Post};
use crate::probe::failure::StepError;

/// Progress of a queue pair.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    posted: u32,
    done: u32,
}

/// Returns seconds for one request, a sample for every `depth` requests of each queue pair, without the start and the end of the
/// flow. With `across` the target is the second half of the remote memory, because the remote end sends from the first.
pub fn drive(
    end: &End,
    connected: &mut [ConnectedQueuePair],
    flow: Flow,
    across: bool,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    let Flow { kind, bytes, count, depth, .. } = flow;
    // One in four is interval: the others are done when a later one is.
    let interval = (depth / 4).max(1);
    let mut lanes = vec![Lane::default(); connected.len()];
    let total = count.saturating_mul(lanes.len() as u32);
    let block = depth.saturating_mul(lanes.len() as u32).max(1);
    let mut done = 0;
    let mut marks = vec![];
    let mut timer = PollTimer::new(end.timeout);
    while done < total {
        let before = done;
        for (connected, lane) in connected.iter_mut().zip(&mut lanes) {
            let into = if across { connected.half } else { 0 };
            let post = Post {
                inline: bytes <= connected.inline_bytes() && kind != Kind::Read,
                ..Post::new(operation(kind, connected.remote(into)), 0, bytes)
            };
            while lane.posted < count && lane.posted - lane.done < depth {
                lane.posted += 1;
                connected.send(&Post {
                    id: u64::from(lane.posted),
                    signalled: lane.posted % interval == 0 || lane.posted == count,
                    ..post
                })?;
            }
            let is_unordered = connected.is_unordered();
            let taken = connected.sent.poll()?;
            let before = lane.done;
            lane.done = match taken.last() {
                _ if is_unordered => before + taken.len() as u32,
                Some(last) => last.id as u32,
                None => before,
            };
            done += lane.done - before;
        }
        if done == before {
            timer.tick("the completion of a request", control)?;
            continue;
        }
        if done / block > before / block {
            marks.push((Instant::now(), done));
        }
        timer = PollTimer::new(end.timeout);
    }
    let seconds = |pair: &[(Instant, u32)]| {
        let time = pair[1].0.duration_since(pair[0].0);
        time.as_secs_f64() / f64::from(pair[1].1 - pair[0].1)
    };
    Ok(marks.windows(2).map(seconds).collect())
}

/// The receiver of a stream.
pub struct Receiving {
    lanes: Vec<Lane>,
    bytes: usize,
    count: u32,
}

impl Receiving {
    /// Posts the first buffers.
    pub fn begin(connected: &mut [ConnectedQueuePair], flow: Flow) -> Result<Self, StepError> {
        let mut receiving = Self {
            lanes: vec![Lane::default(); connected.len()],
            bytes: flow.bytes,
            count: flow.count,
        };
        for (connected, lane) in connected.iter_mut().zip(&mut receiving.lanes) {
            while lane.posted < receiving.count.min(BUFFERS) {
                lane.post(connected, flow.bytes)?;
            }
        }
        Ok(receiving)
    }

    /// Receives all messages, and reposts a buffer for each.
    pub fn finish(
        mut self,
        end: &End,
        connected: &mut [ConnectedQueuePair],
        control: &mut Control,
    ) -> Result<(), StepError> {
        let mut timer = PollTimer::new(end.timeout);
        while self.lanes.iter().any(|lane| lane.done < self.count) {
            let mut any = false;
            for (connected, lane) in connected.iter_mut().zip(&mut self.lanes) {
                let arrived = connected.received.poll()?.len() as u32;
                any |= arrived > 0;
                lane.done += arrived;
                for _ in 0..arrived {
                    if lane.posted < self.count {
                        lane.post(connected, self.bytes)?;
                    }
                }
            }
            if any {
                timer = PollTimer::new(end.timeout)
            } else {
                timer.tick("a message of the remote end", control)?
            }
        }
        Ok(())
    }
}

impl Lane {
    fn post(&mut self, connected: &mut ConnectedQueuePair, bytes: usize) -> Result<(), StepError> {
        self.posted += 1;
        connected.receive(u64::from(self.posted), 0, bytes)
    }
}

/// The immediate data of a request that has some.
pub const IMMEDIATE: u32 = 0x0067_6472;

/// The operation of a request.
pub fn operation(kind: Kind, remote: RemoteAddress) -> Operation {
    let immediate = kind.has_immediate().then_some(IMMEDIATE);
    match kind {
        Kind::Write | Kind::WriteImmediate => Operation::Write { remote, immediate },
        Kind::Read => Operation::Read { remote },
        Kind::Send | Kind::SendImmediate => Operation::Send { immediate },
        Kind::FetchAdd => Operation::FetchAdd { remote, add: 1 },
        Kind::CompareSwap => Operation::CompareSwap { remote, compare: 0, swap: 0 },
    }
}
