//! The far process: its stream waits for a message, changes a word of it, and sends it back.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use gdsync::queue::Wait;
use gdsync::wire::Wqe;
use gdsync::{Program, Watched};

use super::super::plan::driven;
use super::end::{A_PORTION, BATCHES, End, PORTION};
use super::memory::{CHANGED, Slots};
use super::trial;
use super::way::Word;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// What was put in and is not done.
struct Batch {
    waits: Vec<Wait>,
    done: gpu::Event,
}

pub fn run(end: &mut End<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let (slots, _) = Slots::new(end.session, &end.queues, end.slots(), end.bytes)?;
    // What the near process cannot know before it comes back.
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mark = (now.subsec_nanos() ^ std::process::id().rotate_left(16)) | 1;
    reporter.doing_for("the first message of the other process", A_PORTION)?;
    if !trial::remote(end, &slots, mark)? {
        return Ok(());
    }
    let messages = end.messages();
    let mut left = messages;
    while left > 0 {
        let some = left.min(PORTION);
        reporter.doing_for(
            format!("{some} messages that a stream sends back"),
            A_PORTION,
        )?;
        by_stream(end, &slots, mark, some)?;
        left -= some;
    }
    let messages = driven(messages);
    let portions = messages.div_ceil(PORTION);
    reporter.doing_for(
        format!("{messages} messages that the CPU sends back"),
        A_PORTION * portions,
    )?;
    by_cpu(end, &slots, mark, messages)?;
    end.way.say(Word::Mark(mark));
    // What it said on the way out is heard before its queues go.
    end.way.expect(&Word::Ready, A_PORTION)
}

fn by_stream(end: &mut End<'_>, slots: &Slots, mark: u32, messages: u32) -> Result<(), StepError> {
    let mut in_flight = VecDeque::new();
    let outcome = go_round(end, slots, mark, messages, &mut in_flight);
    if outcome.is_err() {
        let waits = in_flight.iter().flat_map(|batch: &Batch| &batch.waits);
        // Why it began to fail tells more.
        let _ = end.release(waits);
    }
    outcome
}

fn go_round(
    end: &mut End<'_>,
    slots: &Slots,
    mark: u32,
    messages: u32,
    in_flight: &mut VecDeque<Batch>,
) -> Result<(), StepError> {
    let mut left = messages;
    let mut said = false;
    while left > 0 || !in_flight.is_empty() {
        while left > 0 && in_flight.len() < BATCHES {
            let count = left.min(end.batch);
            left -= count;
            // Known before anything of it is in the stream: what fails on the way leaves waits behind.
            in_flight.push_back(Batch {
                waits: Vec::new(),
                done: end.session.gpu.event()?,
            });
            if let Some(batch) = in_flight.back_mut() {
                put_in(end, slots, mark, count, batch)?;
            }
        }
        if !said {
            end.way.say(Word::Ready);
            said = true;
        }
        if let Some(batch) = in_flight.front() {
            let watched = batch.waits.iter().map(Watched::completion).collect();
            let guard = end.session.dog.watch(watched, end.session.timeout);
            end.until("the end of a stream that was released", |_| {
                Ok(batch.done.is_done()?)
            })?;
            if let Some(released) = guard.finish().first() {
                let failure =
                    StepError::Released(format!("nothing came from the near process: {released}"));
                return Err(end.why(failure));
            }
            end.queues.completed()?;
        }
        in_flight.pop_front();
    }
    Ok(())
}

/// Puts so many into the stream: what it waits for, what it changes, and what it rings.
fn put_in(
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
        let entry = Wqe::send(&[slots.segment(number)]).signalled();
        let prepared = pair.send.prepare(&entry)?;
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
    program.post_to(&end.session.stream, end.session.can)?;
    Ok(end.session.stream.record(&batch.done)?)
}

fn by_cpu(end: &mut End<'_>, slots: &Slots, mark: u32, messages: u32) -> Result<(), StepError> {
    let first = end.next;
    end.queues.pair.receive.post(&[slots.segment(first)])?;
    end.way.say(Word::Ready);
    for left in (0..messages).rev() {
        let number = end.number();
        end.arrives()?;
        slots.change(number, mark.wrapping_add(number))?;
        let pair = &mut end.queues.pair;
        if left > 0 {
            // Before the answer, upon which the next one comes.
            pair.receive
                .post(&[slots.segment(number.wrapping_add(1))])?;
        }
        let entry = Wqe::send(&[slots.segment(number)]).signalled();
        pair.send.prepare(&entry)?.ring()?;
    }
    Ok(())
}
