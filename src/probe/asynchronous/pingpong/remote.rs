//! The remote process: its stream waits for a message, changes a word of it, and sends it back.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use gdsync::queue::Wait;
use gdsync::wire::Wqe;
use gdsync::{Program, Watched};

use super::super::plan::cpu_messages;
use super::end::{BATCHES, End, STEP, STEP_TIME};
use super::memory::{CHANGED, Slots};
use super::peer::Message;
use super::trial;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Queued messages that are not done yet.
struct Batch {
    waits: Vec<Wait>,
    done: gpu::Event,
}

pub fn run(end: &mut End<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let (slots, _) = Slots::new(end.session, &end.queues, end.slots(), end.bytes)?;
    // Unpredictable for the local process.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mark = (now.subsec_nanos() ^ std::process::id().rotate_left(16)) | 1;
    reporter.doing_for("the first message of the other process", STEP_TIME)?;
    if !trial::remote(end, &slots, mark)? {
        return Ok(());
    }
    let messages = end.messages();
    let mut left = messages;
    while left > 0 {
        let count = left.min(STEP);
        reporter.doing_for(
            format!("{count} messages that a stream sends back"),
            STEP_TIME,
        )?;
        by_stream(end, &slots, mark, count)?;
        left -= count;
    }
    let messages = cpu_messages(messages);
    let portions = messages.div_ceil(STEP);
    reporter.doing_for(
        format!("{messages} messages that the CPU sends back"),
        STEP_TIME * portions,
    )?;
    by_cpu(end, &slots, mark, messages)?;
    end.peer.send(Message::Mark(mark));
    // Keeps the queues until the last messages have arrived.
    end.peer.expect(&Message::Ready, STEP_TIME)
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
    let mut is_ready = false;
    while left > 0 || !in_flight.is_empty() {
        while left > 0 && in_flight.len() < BATCHES {
            let count = left.min(end.batch);
            left -= count;
            // Added before its operations are queued, so that a failure can release its waits.
            in_flight.push_back(Batch {
                waits: Vec::new(),
                done: end.session.gpu.event()?,
            });
            if let Some(batch) = in_flight.back_mut() {
                queue(end, slots, mark, count, batch)?;
            }
        }
        if !is_ready {
            end.peer.send(Message::Ready);
            is_ready = true;
        }
        if let Some(batch) = in_flight.front() {
            let watched = batch.waits.iter().map(Watched::completion).collect();
            let guard = end.session.watchdog.watch(watched, end.session.timeout);
            end.until("the end of a stream that was released", |_| {
                Ok(batch.done.is_done()?)
            })?;
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

/// Queues messages in the stream: wait, change, ring.
fn queue(
    end: &mut End<'_>,
    slots: &Slots,
    mark: u32,
    count: u32,
    batch: &mut Batch,
) -> Result<(), StepError> {
    let mut program = Program::new();
    for _ in 0..count {
        let number = end.number();
        let pair = &mut end.queues.pair;
        pair.receive.post(&[slots.segment(number)])?;
        let wait = pair.receive_completions.take_wait()?;
        let wqe = Wqe::send(&[slots.segment(number)]).signalled();
        let prepared = pair.send.prepare(&wqe)?;
        program
            .wait(&wait, true)
            .write32(
                &slots.place,
                slots.at(number) + CHANGED,
                mark.wrapping_add(number),
            )
            .ring(&prepared);
        batch.waits.push(wait);
    }
    program.post_to(&end.session.stream, end.session.capabilities)?;
    Ok(end.session.stream.record(&batch.done)?)
}

fn by_cpu(end: &mut End<'_>, slots: &Slots, mark: u32, messages: u32) -> Result<(), StepError> {
    let first = end.next;
    end.queues.pair.receive.post(&[slots.segment(first)])?;
    end.peer.send(Message::Ready);
    for left in (0..messages).rev() {
        let number = end.number();
        end.arrives()?;
        slots.change(number, mark.wrapping_add(number))?;
        let pair = &mut end.queues.pair;
        if left > 0 {
            // Before the answer, which triggers the next message.
            pair.receive
                .post(&[slots.segment(number.wrapping_add(1))])?;
        }
        let wqe = Wqe::send(&[slots.segment(number)]).signalled();
        pair.send.prepare(&wqe)?.ring()?;
    }
    Ok(())
}
