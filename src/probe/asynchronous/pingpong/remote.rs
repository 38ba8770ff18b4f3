//! The remote process: its stream waits for a message, changes a word of it, and sends it back.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use gdsync::queue::Wait;
use gdsync::{Program, Watched};

use super::super::plan::cpu_messages;
use super::super::settings::{BATCHES, Order};
use super::super::slots::{CHANGED, Slots};
use super::end::{End, STEP_TIME};
use super::peer::Message;
use super::trial;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Queued messages that are not done yet.
struct Batch {
    waits: Vec<Wait>,
    done: gpu::Event,
}

/// Returns the messages of one series; false if no other one should follow.
pub fn run(end: &mut End<'_>, reporter: &mut Reporter<'_>) -> Result<bool, StepError> {
    let (count, bytes, step) = (end.series.slots(), end.series.bytes, end.step());
    let (slots, _) = Slots::new(end.session, &end.queues, count, bytes)?;
    // Unpredictable for the local process.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mark = (now.subsec_nanos() ^ std::process::id().rotate_left(16)) | 1;
    reporter.doing_for("the first message of the other process", STEP_TIME)?;
    if !trial::remote(end, &slots, mark)? {
        return Ok(false);
    }
    let messages = end.messages();
    let mut left = messages;
    while left > 0 {
        let count = left.min(step);
        reporter.doing_for(format!("{count} messages that a stream sends back"), STEP_TIME)?;
        by_stream(end, &slots, mark, count)?;
        left -= count;
    }
    let messages = cpu_messages(messages);
    let portions = messages.div_ceil(step);
    reporter
        .doing_for(format!("{messages} messages that the CPU sends back"), STEP_TIME * portions)?;
    by_cpu(end, &slots, mark, messages)?;
    end.peer.send(Message::Mark(mark));
    // Keeps the queues until the last messages have arrived.
    end.peer.expect(&Message::Ready, STEP_TIME)?;
    Ok(true)
}

fn by_stream(end: &mut End<'_>, slots: &Slots, mark: u32, messages: u32) -> Result<(), StepError> {
    let mut in_flight = VecDeque::new();
    let outcome = run_batches(end, slots, mark, messages, &mut in_flight);
    if outcome.is_err() {
        let waits = in_flight.iter().flat_map(|batch: &Batch| &batch.waits);
        // The first error explains more than this one.
        let _ = end.release(waits);
    }
    outcome
}

fn run_batches(
    end: &mut End<'_>,
    slots: &Slots,
    mark: u32,
    messages: u32,
    in_flight: &mut VecDeque<Batch>,
) -> Result<(), StepError> {
    let mut left = messages;
    while left > 0 || !in_flight.is_empty() {
        while left > 0 && in_flight.len() < BATCHES {
            let is_first = left == messages;
            let count = left.min(end.series.batch);
            left -= count;
            // Added before its operations are queued, so that a failure can release its waits.
            in_flight.push_back(Batch { waits: Vec::new(), done: end.session.gpu.event()? });
            if let Some(batch) = in_flight.back_mut() {
                queue(end, slots, mark, count, batch)?;
            }
            if is_first || end.announces_batches() {
                end.ready();
            }
        }
        if let Some(batch) = in_flight.front() {
            let watched = batch.waits.iter().map(Watched::completion).collect();
            let guard = end.session.watchdog.watch(watched, end.session.timeout);
            end.until("the end of a stream that was released", |_| Ok(batch.done.is_done()?))?;
            if let Some(released) = guard.finish().first() {
                let failure = StepError::Released(format!(
                    "no message arrived from the local process: {released}"
                ));
                return Err(end.why(failure));
            }
            end.queues.completed()?;
        }
        in_flight.pop_front();
    }
    Ok(())
}

/// Queues messages in the stream: wait, change, ring, and what is less urgent after that.
fn queue(
    end: &mut End<'_>,
    slots: &Slots,
    mark: u32,
    count: u32,
    batch: &mut Batch,
) -> Result<(), StepError> {
    let mut numbers = Vec::new();
    for _ in 0..count {
        let number = end.number();
        end.queues.receive(slots.segment(number))?;
        batch.waits.push(end.queues.pair.receive_completions.take_wait()?);
        numbers.push(number);
    }
    let mut work: Vec<(u32, &Wait)> = numbers.into_iter().zip(&batch.waits).collect();
    if end.series.order == Order::OutOfOrder {
        work.reverse();
    }
    let mut program = Program::new();
    for (number, wait) in work {
        let prepared = end.queues.send(slots.segment(number))?;
        program.until(wait, true);
        end.session.compute(&mut program)?;
        program
            .write32(&slots.place, slots.at(number) + CHANGED, mark.wrapping_add(number))
            .ring(&prepared)
            .release(wait);
    }
    program.post_to(&end.session.stream, end.session.capabilities)?;
    Ok(end.session.stream.record(&batch.done)?)
}

fn by_cpu(end: &mut End<'_>, slots: &Slots, mark: u32, messages: u32) -> Result<(), StepError> {
    let first = end.next;
    end.queues.receive(slots.segment(first))?;
    end.ready();
    for left in (0..messages).rev() {
        let number = end.number();
        end.arrives()?;
        end.session.computed()?;
        slots.change(number, mark.wrapping_add(number))?;
        if left > 0 {
            // Before the answer, which triggers the next message.
            end.queues.receive(slots.segment(number.wrapping_add(1)))?;
        }
        end.queues.send(slots.segment(number))?.ring()?;
    }
    Ok(())
}
