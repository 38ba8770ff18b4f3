//! The local process: its stream repeatedly sends a message and waits for its return. The CPU polls a word that the stream writes after
//! each. Then the CPU drives the same messages. The CPU writes messages before the measured time, and compares every returned one after it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gdsync::queue::{Prepared, Wait};
use gdsync::{MappedMemory, Program, Watched};

use super::super::plan::cpu_messages;
use super::super::settings::{BATCHES, Order};
use super::super::slots::{self, Slots};
use super::end::{End, STEP_TIME};
use super::peer::{Message, PART};
use super::trial;
use crate::model::ProbeResult;
use crate::model::figure::asynchronous::{MessageDriver, MessagePath};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Offset of the word with the stream's progress.
const PROGRESS: usize = 512;

/// The state of the round trips.
struct Loop {
    sent: Slots,
    returned: Slots,
    /// The stream writes the number of each returned message here.
    progress: MappedMemory,
    mark: u32,
    times: RoundTrips,
}

/// Queued messages that have not all returned.
struct Batch {
    first: u32,
    count: u32,
    waits: Vec<Wait>,
}

/// Measures one series; false if no other one should follow.
pub fn run(end: &mut End<'_>, reporter: &mut Reporter<'_>) -> Result<bool, StepError> {
    let about = end.session.about_queues();
    let bytes = end.series.bytes;
    let step = end.step() as usize;
    let (sent, why) = Slots::new(end.session, &end.queues, step, bytes)?;
    let (returned, _) = Slots::new(end.session, &end.queues, step, bytes)?;
    if let Some(why) = why {
        reporter
            .note(format!("messages between two processes lie in pinned host memory: {why}"))?;
    }
    reporter.doing_for("the first message to another process", STEP_TIME)?;
    let mark = match trial::local(end, &sent, &returned)? {
        Ok(mark) => mark,
        Err(why) => {
            reporter.result(about.impossible(PART, Some(bytes), false, why))?;
            return Ok(false);
        }
    };
    let mut looped = Loop {
        sent,
        returned,
        progress: end.session.words[0].1.clone(),
        mark,
        times: RoundTrips::default(),
    };
    let results = match looped.measure(end, reporter)? {
        Ok(results) => results,
        Err(wrong) => {
            reporter.result(wrong)?;
            return Ok(false);
        }
    };
    let message = end.peer.receive(Duration::ZERO)?;
    end.peer.send(Message::Ready);
    if message != Message::Mark(mark) {
        let why = "the returned message was not changed by the other process".to_owned();
        reporter.result(about.wrong(PART, Some(bytes), why))?;
        return Ok(false);
    }
    for result in results {
        reporter.result(result)?;
    }
    Ok(true)
}

impl Loop {
    /// The latencies by the stream and by the CPU, or the result of a wrong message.
    fn measure(
        &mut self,
        end: &mut End<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<Result<[ProbeResult; 2], ProbeResult>, StepError> {
        let about = end.session.about_queues();
        let (bytes, step, messages) = (end.series.bytes, end.step(), end.messages());
        let name = end.series.latency(MessagePath::PingPong, MessageDriver::Stream);
        let mut left = messages;
        reporter.expect_more(u64::from(messages.div_ceil(step)) + 1);
        while left > 0 {
            let count = left.min(step);
            reporter.doing_for(
                format!("{count} of {messages} messages to the other process and back"),
                STEP_TIME,
            )?;
            if let Some(why) = self.by_stream(end, count)? {
                return Ok(Err(about.wrong(&name, Some(bytes), why)));
            }
            left -= count;
        }
        let verified = messages as usize * bytes;
        let by_stream = about.spread(&name, Some(bytes), verified, &self.times.samples);
        let name = end.series.latency(MessagePath::PingPong, MessageDriver::Cpu);
        let messages = cpu_messages(messages);
        let portions = messages.div_ceil(step);
        let what = format!("{messages} messages that the CPUs send to the other process and back");
        reporter.doing_for(what, STEP_TIME * portions)?;
        Ok(match self.by_cpu(end, messages)? {
            (times, None) => {
                let verified = messages as usize * bytes;
                Ok([by_stream, about.spread(&name, Some(bytes), verified, &times)])
            }
            (_, Some(why)) => Err(about.wrong(&name, Some(bytes), why)),
        })
    }

    /// A wrong message, if any.
    fn by_stream(&mut self, end: &mut End<'_>, messages: u32) -> Result<Option<String>, StepError> {
        let first = end.next;
        let numbers = move || (0..messages).map(move |number| first.wrapping_add(number));
        for number in numbers() {
            let message = slots::message(number, 0, end.series.bytes);
            self.sent.write(number, &message)?;
        }
        let mut in_flight = VecDeque::new();
        if let Err(error) = self.run_batches(end, messages, &mut in_flight) {
            let waits = in_flight.iter().flat_map(|batch: &Batch| &batch.waits);
            // Ignored: the first error explains more than this one.
            let _ = end.release(waits);
            return Err(error);
        }
        for number in numbers() {
            let wrong = self.wrong(end, number)?;
            if wrong.is_some() {
                return Ok(wrong);
            }
        }
        Ok(None)
    }

    fn run_batches(
        &mut self,
        end: &mut End<'_>,
        messages: u32,
        in_flight: &mut VecDeque<Batch>,
    ) -> Result<(), StepError> {
        end.peer.expect(&Message::Ready, STEP_TIME)?;
        self.times.begin(end.next.wrapping_sub(1));
        self.progress.store_u32(PROGRESS, end.next.wrapping_sub(1))?;
        let mut left = messages;
        while left > 0 || !in_flight.is_empty() {
            while left > 0 && in_flight.len() < BATCHES {
                if end.announces_batches() && left < messages {
                    end.peer.expect(&Message::Ready, STEP_TIME)?;
                }
                let count = left.min(end.series.batch);
                left -= count;
                // Added before its operations are queued, so that a failure can release its waits.
                in_flight.push_back(Batch { first: end.next, count, waits: Vec::new() });
                if let Some(batch) = in_flight.back_mut() {
                    self.queue(end, batch)?;
                }
            }
            if let Some(batch) = in_flight.front() {
                self.finish(end, batch)?;
            }
            in_flight.pop_front();
        }
        Ok(())
    }

    /// Queues a batch in the stream.
    fn queue(&self, end: &mut End<'_>, batch: &mut Batch) -> Result<(), StepError> {
        let order = end.series.order;
        let mut sends = Vec::new();
        for position in 0..batch.count {
            let number = end.number();
            let returned = match order {
                Order::InOrder => number,
                // The other process returns the last message first.
                Order::OutOfOrder => batch.first.wrapping_add(batch.count - 1 - position),
            };
            end.queues.receive(self.returned.segment(returned))?;
            sends.push(end.queues.send(self.sent.segment(number))?);
            batch.waits.push(end.queues.pair.receive_completions.take_wait()?);
        }
        match order {
            Order::InOrder => self.queue_in_order(end, batch, &sends),
            Order::OutOfOrder => self.queue_last_first(end, batch, &sends),
        }
    }

    /// What is urgent comes first: after a message the next doorbell, then the words for the CPU.
    fn queue_in_order(
        &self,
        end: &End<'_>,
        batch: &Batch,
        sends: &[Prepared],
    ) -> Result<(), StepError> {
        let mut program = Program::new();
        program.ring(&sends[0]);
        for (position, wait) in batch.waits.iter().enumerate() {
            program.until(wait, true);
            end.session.compute(&mut program)?;
            if let Some(next) = sends.get(position + 1) {
                program.ring(next);
            }
            let number = batch.first.wrapping_add(position as u32);
            program.release(wait).write32(&self.progress, PROGRESS, number);
        }
        Ok(program.post_to(&end.session.stream, end.session.capabilities)?)
    }

    fn queue_last_first(
        &self,
        end: &End<'_>,
        batch: &Batch,
        sends: &[Prepared],
    ) -> Result<(), StepError> {
        let mut program = Program::new();
        for prepared in sends {
            program.ring(prepared);
        }
        for (count, wait) in (0..).zip(batch.waits.iter().rev()) {
            program.until(wait, true);
            end.session.compute(&mut program)?;
            let number = batch.first.wrapping_add(count);
            program.release(wait).write32(&self.progress, PROGRESS, number);
        }
        Ok(program.post_to(&end.session.stream, end.session.capabilities)?)
    }

    /// Waits for a batch.
    fn finish(&mut self, end: &mut End<'_>, batch: &Batch) -> Result<(), StepError> {
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
        Ok(())
    }

    /// Why a returned message is wrong.
    fn wrong(&self, end: &End<'_>, number: u32) -> Result<Option<String>, StepError> {
        let found = self.returned.read(end.session, number)?;
        let why = slots::wrong(number, self.mark.wrapping_add(number), &found);
        Ok(why.map(|why| format!("returned {why}")))
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
            let message = slots::message(number, 0, end.series.bytes);
            self.sent.write(number, &message)?;
            end.queues.receive(self.returned.segment(number))?;
            let prepared = end.queues.send(self.sent.segment(number))?;
            let begun = Instant::now();
            prepared.ring()?;
            end.arrives()?;
            end.session.computed()?;
            times.push(begun.elapsed().as_secs_f64() / 2.0);
            let wrong = self.wrong(end, number)?;
            if wrong.is_some() {
                return Ok((times, wrong));
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
        times.samples.iter().map(|seconds| (seconds * 1e7).round() / 10.0).collect()
    }

    #[test]
    fn measures_messages_seen_at_once() {
        // Round trips of 20 us and 30 us.
        let polls = [(0, 10), (99, 10), (100, 11), (119, 11), (120, 12), (149, 12), (150, 13)];
        assert_eq!(samples(&polls), [10.0, 15.0]);
        assert_eq!(samples(&[(0, 10), (99, 10)]), [0.0_f64; 0]);
        // The first poll does not tell when message 12 returned.
        assert_eq!(samples(&[(0, 12), (19, 12), (20, 13), (39, 13), (40, 14)]), [10.0]);
    }

    #[test]
    fn shares_interval_between_late_polls() {
        // No poll between 101 and 150 us; message 14 is seen at once: three messages in 60 us.
        let polls = [(99, 10), (100, 11), (101, 11), (150, 13), (159, 13), (160, 14)];
        assert_eq!(samples(&polls), [10.0, 10.0, 10.0]);
    }
}
