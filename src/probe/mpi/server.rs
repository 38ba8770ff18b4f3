//! The other ranks: they do what rank 0 says.

use std::time::Duration;

use gpu::Pattern;

use super::client::{Buffers, window};
use super::message::{Message, Step, shortened};
use super::world::{MeasuredRank, message_time};
use crate::model::figure::mpi::MessageMemory;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Rank 0 prepares memory between two steps.
const PREPARATION: Duration = Duration::from_secs(1);
/// Longest wait for the other ranks, and most messages of a step.
const MAX_WAIT: Duration = Duration::from_secs(600);
const MAX_MESSAGES: u32 = 10_000_000;

pub fn serve(
    world: &MeasuredRank,
    buffers: &[Buffers],
    room: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let served = serve_steps(world, buffers, room, reporter);
    if let Err(failure) = &served
        && !failure.is_from_peer()
    {
        // Rank 0 may wait for something else, and then reports that this rank is silent.
        world.send_failure(0, failure);
    }
    served
}

fn serve_steps(
    world: &MeasuredRank,
    buffers: &[Buffers],
    room: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let mut waiting = PREPARATION;
    loop {
        reporter.doing_for("the next step of rank 0", waiting)?;
        let Message::Step(step) = world.receive_message(0, waiting)? else {
            return Err(StepError::OutOfStep);
        };
        waiting = PREPARATION;
        match step {
            Step::End => return Ok(()),
            Step::Wait(time) => waiting = time.min(MAX_WAIT) + PREPARATION,
            Step::Verify { memory, bytes, seeds } => {
                waiting += message_time(bytes);
                let memory = find(buffers, memory, bytes, room)?;
                reporter.doing_for("the message to verify", message_time(bytes))?;
                verify(world, memory, bytes, seeds)?;
            }
            Step::PingPong { memory, bytes, count } => {
                let memory = find(buffers, memory, bytes, room)?;
                messages(count, 1)?;
                let time = message_time(bytes);
                reporter.doing_for("messages to send back", MAX_WAIT)?;
                for _ in 0..count {
                    let arriving = world.receive(&memory.into, bytes, 0)?;
                    world.wait(&mut [arriving], 0, time)?;
                    let sent = world.send(&memory.out, bytes, 0)?;
                    world.wait(&mut [sent], 0, time)?;
                }
            }
            Step::Stream { memory, bytes, windows } => {
                let memory = find(buffers, memory, bytes, room)?;
                let in_flight = window(bytes);
                messages(windows, in_flight)?;
                let time = message_time(bytes);
                reporter.doing_for("windows of messages", MAX_WAIT)?;
                for _ in 0..windows {
                    let window = (0..in_flight).map(|_| world.receive(&memory.into, bytes, 0));
                    let mut window = window.collect::<Result<Vec<_>, _>>()?;
                    world.wait(&mut window, 0, time)?;
                    let sent = world.send(&memory.out, 1, 0)?;
                    world.wait(&mut [sent], 0, time)?;
                }
            }
        }
    }
}

fn verify(
    world: &MeasuredRank,
    memory: &Buffers,
    bytes: usize,
    [first, second]: [u64; 2],
) -> Result<(), StepError> {
    let time = message_time(bytes);
    // What arrives replaces another pattern.
    memory.into.fill(bytes, Pattern::new(second))?;
    memory.out.fill(bytes, Pattern::new(second))?;
    let arriving = world.receive(&memory.into, bytes, 0)?;
    world.wait(&mut [arriving], 0, time)?;
    let wrong = memory.into.check(bytes, Pattern::new(first))?;
    world.send_message(0, &Message::Found(wrong.map(|wrong| shortened(&wrong))))?;
    let sent = world.send(&memory.out, bytes, 0)?;
    world.wait(&mut [sent], 0, time)
}

/// The memory of a step, if the message fits.
fn find(
    buffers: &[Buffers],
    kind: MessageMemory,
    bytes: usize,
    room: usize,
) -> Result<&Buffers, StepError> {
    let found = buffers.iter().find(|buffers| buffers.kind == kind);
    found.filter(|_| (1..=room).contains(&bytes)).ok_or(StepError::OutOfStep)
}

fn messages(count: u32, each: u32) -> Result<(), StepError> {
    match count.checked_mul(each) {
        Some(1..=MAX_MESSAGES) => Ok(()),
        _ => Err(StepError::OutOfStep),
    }
}
