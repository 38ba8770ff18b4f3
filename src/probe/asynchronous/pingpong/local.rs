//! The local process: its stream repeatedly sends a message and waits for its return. The CPU polls a word that the stream writes after
//! each, and compares every returned message. Then the CPU drives the same messages.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gdsync::queue::Wait;
use gdsync::wire::Wqe;
use gdsync::{Place, Program, Watched};

use super::super::plan::cpu_messages;
use super::end::{BATCHES, End, STEP, STEP_TIME};
use super::memory::{self, Slots};
use super::peer::{Message, PART};
use super::trial;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Offset of the word with the stream's progress.
const PROGRESS: usize = 512;

/// The state of the round trips.
struct Loop {
    sent: Slots,
    returned: Slots,
    /// The stream writes the number of each returned message here.
    progress: Place,
    mark: u32,
    times: RoundTrips,
}

/// Queued messages that are not verified yet.
struct Batch {
    first: u32,
    count: u32,
    waits: Vec<Wait>,
}

pub fn run(end: &mut End<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let about = end.session.about_queues();
    let (sent, why) = Slots::new(end.session, &end.queues, end.slots(), end.bytes)?;
    let (returned, _) = Slots::new(end.session, &end.queues, end.slots(), end.bytes)?;
    if let Some(why) = why {
        reporter.note(format!(
            "messages between two processes lie in pinned host memory: {why}"
        ))?;
    }
    reporter.doing_for("the first message to another process", STEP_TIME)?;
    let mark = match trial::local(end, &sent, &returned)? {
        Ok(mark) => mark,
        Err(why) => {
            return Ok(reporter.result(about.impossible(PART, Some(end.bytes), false, why))?);
        }
    };
    let mut looped = Loop {
        sent,
        returned,
        progress: end.session.words[0].1.clone(),
        mark,
        times: RoundTrips::default(),
    };
    let bytes = end.bytes;
    let messages = end.messages();
    let mut results = Vec::new();
    let name = "async.pingpong.stream.latency";
    let (mut left, mut wrong) = (messages, None);
    reporter.expect_more(u64::from(messages.div_ceil(STEP)) + 1);
    while left > 0 && wrong.is_none() {
        let count = left.min(STEP);
        reporter.doing_for(
            format!("{count} of {messages} messages to the other process and back"),
            STEP_TIME,
        )?;
        wrong = looped.by_stream(end, count)?;
        left -= count;
    }
    results.push(match wrong {
        None => about.spread(
            name,
            Some(bytes),
            messages as usize * bytes,
            &looped.times.samples,
        ),
        Some(why) => return Ok(reporter.result(about.wrong(name, Some(bytes), why))?),
    });
    let name = "async.pingpong.cpu.latency";
    let messages = cpu_messages(messages);
    let portions = messages.div_ceil(STEP);
    let what = format!("{messages} messages that the CPUs send to the other process and back");
    reporter.doing_for(what, STEP_TIME * portions)?;
    let (times, wrong) = looped.by_cpu(end, messages)?;
    results.push(match wrong {
        None => about.spread(name, Some(bytes), messages as usize * bytes, &times),
        Some(why) => return Ok(reporter.result(about.wrong(name, Some(bytes), why))?),
    });
    let message = end.peer.receive(Duration::ZERO)?;
    end.peer.send(Message::Ready);
    if message != Message::Mark(mark) {
        let why = "the returned message was not changed by the other process".to_owned();
        return Ok(reporter.result(about.wrong(PART, Some(bytes), why))?);
    }
    for result in results {
        reporter.result(result)?;
    }
    Ok(())
}

impl Loop {
    /// A wrong message, if any.
    fn by_stream(&mut self, end: &mut End<'_>, messages: u32) -> Result<Option<String>, StepError> {
        let mut in_flight = VecDeque::new();
        let outcome = self.run_batches(end, messages, &mut in_flight);
        if !matches!(outcome, Ok(None)) {
            let waits = in_flight.iter().flat_map(|batch: &Batch| &batch.waits);
            let ended = end.release(waits);
            // The first error explains more than this one.
            return outcome.and_then(|found| ended.map(|()| found));
        }
        outcome
    }

    fn run_batches(
        &mut self,
        end: &mut End<'_>,
        messages: u32,
        in_flight: &mut VecDeque<Batch>,
    ) -> Result<Option<String>, StepError> {
        end.peer.expect(&Message::Ready, STEP_TIME)?;
        self.times.begin(end.next.wrapping_sub(1));
        self.progress
            .store_u32(PROGRESS, end.next.wrapping_sub(1))?;
        let mut left = messages;
        while left > 0 || !in_flight.is_empty() {
            while left > 0 && in_flight.len() < BATCHES {
                let count = left.min(end.batch);
                left -= count;
                // Added before its operations are queued, so that a failure can release its waits.
                in_flight.push_back(Batch {
                    first: end.next,
                    count,
                    waits: Vec::new(),
                });
                if let Some(batch) = in_flight.back_mut() {
                    self.queue(end, batch)?;
                }
            }
            if let Some(batch) = in_flight.front()
                && let Some(wrong) = self.finish(end, batch)?
            {
                return Ok(Some(wrong));
            }
            in_flight.pop_front();
        }
        Ok(None)
    }

    /// Queues a batch in the stream.
    fn queue(&self, end: &mut End<'_>, batch: &mut Batch) -> Result<(), StepError> {
        let mut program = Program::new();
        for _ in 0..batch.count {
            let number = end.number();
            self.sent
                .write(number, &memory::message(number, 0, end.bytes))?;
            let pair = &mut end.queues.pair;
            pair.receive.post(&[self.returned.segment(number)])?;
            let wqe = Wqe::send(&[self.sent.segment(number)]).signalled();
            let prepared = pair.send.prepare(&wqe)?;
            let wait = pair.receive_completions.take_wait()?;
            program
                .ring(&prepared)
                .wait(&wait, true)
                .write32(&self.progress, PROGRESS, number);
            batch.waits.push(wait);
        }
        Ok(program.post_to(&end.session.stream, end.session.capabilities)?)
    }

    /// Waits for a batch, and compares it.
    fn finish(&mut self, end: &mut End<'_>, batch: &Batch) -> Result<Option<String>, StepError> {
        let watched = batch.waits.iter().map(Watched::completion).collect();
        let guard = end.session.watchdog.watch(watched, end.session.timeout);
        let last = batch.first.wrapping_add(batch.count - 1);
        end.until("the end of a stream that was released", |_| {
            let number = self.progress.load_u32(PROGRESS)?;
            self.times.poll(number, Instant::now());
            Ok(number.wrapping_sub(last) < u32::MAX / 2)
        })?;
        if let Some(released) = guard.finish().first() {
            let failure = StepError::Released(format!(
                "no message returned from the other process: {released}"
            ));
            return Err(end.why(failure));
        }
        end.queues.completed()?;
        for number in (0..batch.count).map(|number| batch.first.wrapping_add(number)) {
            let found = self.returned.read(end.session, number)?;
            if let Some(why) = memory::wrong(number, self.mark, &found) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// The CPU rings the doorbell and polls.
    fn by_cpu(
        &self,
        end: &mut End<'_>,
        messages: u32,
    ) -> Result<(Vec<f64>, Option<String>), StepError> {
        let mut times = Vec::with_capacity(messages as usize);
        end.peer.expect(&Message::Ready, STEP_TIME)?;
        for _ in 0..messages {
            let number = end.number();
            self.sent
                .write(number, &memory::message(number, 0, end.bytes))?;
            let pair = &mut end.queues.pair;
            pair.receive.post(&[self.returned.segment(number)])?;
            let wqe = Wqe::send(&[self.sent.segment(number)]).signalled();
            let prepared = pair.send.prepare(&wqe)?;
            let begun = Instant::now();
            prepared.ring()?;
            end.arrives()?;
            times.push(begun.elapsed().as_secs_f64() / 2.0);
            let found = self.returned.read(end.session, number)?;
            if let Some(why) = memory::wrong(number, self.mark, &found) {
                return Ok((times, Some(why)));
            }
        }
        Ok((times, None))
    }
}

/// Half round-trip times from polls of the stream's progress.
///
/// The CPU may be busy between two polls, so a message may have returned long before it is seen. An interval ends only at a message
/// whose return is known exactly; each message of the interval gets an equal share of it.
#[derive(Default)]
struct RoundTrips {
    /// Seconds.
    samples: Vec<f64>,
    last_number: u32,
    last_poll: Option<Instant>,
    /// Start of the interval: the time, the message, and the time since the poll before.
    begun: Option<(Instant, u32, Duration)>,
}

/// The uncertainty of an interval is at most this fraction of it.
const PRECISION: u32 = 10;

impl RoundTrips {
    /// Starts after message `number`, which begins no interval.
    fn begin(&mut self, number: u32) {
        *self = Self {
            samples: std::mem::take(&mut self.samples),
            last_number: number,
            last_poll: None,
            begun: None,
        };
    }

    fn poll(&mut self, number: u32, now: Instant) {
        let before = self.last_poll.replace(now);
        if number == self.last_number {
            return;
        }
        self.last_number = number;
        // Without an earlier poll the time of return is unknown.
        let Some(gap) = before.map(|before| now - before) else {
            return;
        };
        if let Some((since, first, first_gap)) = self.begun {
            let (took, came) = (now - since, number.wrapping_sub(first));
            if (gap + first_gap) * PRECISION > took {
                return;
            }
            let each = took.as_secs_f64() / f64::from(came) / 2.0;
            self.samples.extend((0..came).map(|_| each));
        }
        self.begun = Some((now, number, gap));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The samples of polls at (microseconds, message), in microseconds.
    fn samples(polls: &[(u64, u32)]) -> Vec<f64> {
        let begun = Instant::now();
        let mut times = RoundTrips::default();
        times.begin(10);
        for (at, number) in polls {
            times.poll(*number, begun + Duration::from_micros(*at));
        }
        times
            .samples
            .iter()
            .map(|seconds| (seconds * 1e7).round() / 10.0)
            .collect()
    }

    #[test]
    fn measures_messages_seen_at_once() {
        // Round trips of 20 us and 30 us.
        let polls = [
            (0, 10),
            (99, 10),
            (100, 11),
            (119, 11),
            (120, 12),
            (149, 12),
            (150, 13),
        ];
        assert_eq!(samples(&polls), [10.0, 15.0]);
        assert_eq!(samples(&[(0, 10), (99, 10)]), [0.0_f64; 0]);
        // The first poll does not tell when message 12 returned.
        assert_eq!(
            samples(&[(0, 12), (19, 12), (20, 13), (39, 13), (40, 14)]),
            [10.0]
        );
    }

    #[test]
    fn shares_interval_between_late_polls() {
        // No poll between 101 and 150 us; message 14 is seen at once: three messages in 60 us.
        let polls = [
            (99, 10),
            (100, 11),
            (101, 11),
            (150, 13),
            (159, 13),
            (160, 14),
        ];
        assert_eq!(samples(&polls), [10.0, 10.0, 10.0]);
    }
}
