//! The near process: its stream sends a message and waits until it is back, again and again; the CPU watches a word that the stream writes
//! each time, and compares every message that came back. And the same driven by the CPU.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gdsync::queue::Wait;
use gdsync::wire::Wqe;
use gdsync::{Place, Program, Watched};

use super::super::plan::driven;
use super::end::{A_PORTION, BATCHES, End, PORTION};
use super::memory::{self, Slots};
use super::trial;
use super::way::{PART, Word};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Where the stream writes how far it is.
const SO_FAR: usize = 512;

/// What there is to go round.
struct Ring {
    sent: Slots,
    back: Slots,
    /// The stream writes the number of each message that is back there.
    so_far: Place,
    mark: u32,
    rounds: Rounds,
}

/// What was put in and is not known to be right.
struct Batch {
    first: u32,
    count: u32,
    waits: Vec<Wait>,
}

pub fn run(end: &mut End<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let about = end.session.about_queues();
    let (sent, why) = Slots::new(end.session, &end.queues, end.slots(), end.bytes)?;
    let (back, _) = Slots::new(end.session, &end.queues, end.slots(), end.bytes)?;
    if let Some(why) = why {
        reporter.note(format!(
            "messages between two processes lie in pinned host memory: {why}"
        ))?;
    }
    reporter.doing_for("the first message to another process", A_PORTION)?;
    let mark = match trial::local(end, &sent, &back)? {
        Ok(mark) => mark,
        Err(why) => {
            return Ok(reporter.result(about.impossible(PART, Some(end.bytes), false, why))?);
        }
    };
    let mut ring = Ring {
        sent,
        back,
        so_far: end.session.words[0].1.clone(),
        mark,
        rounds: Rounds::default(),
    };
    let bytes = end.bytes;
    let messages = end.messages();
    let mut results = Vec::new();
    let name = "async.pingpong.stream.latency";
    let (mut left, mut wrong) = (messages, None);
    reporter.expect_more(u64::from(messages.div_ceil(PORTION)) + 1);
    while left > 0 && wrong.is_none() {
        let some = left.min(PORTION);
        reporter.doing_for(
            format!("{some} of {messages} messages that go there and back"),
            A_PORTION,
        )?;
        wrong = ring.by_stream(end, some)?;
        left -= some;
    }
    results.push(match wrong {
        None => about.spread(
            name,
            Some(bytes),
            messages as usize * bytes,
            &ring.rounds.times,
        ),
        Some(why) => return Ok(reporter.result(about.wrong(name, Some(bytes), why))?),
    });
    let name = "async.pingpong.cpu.latency";
    let messages = driven(messages);
    let portions = messages.div_ceil(PORTION);
    let what = format!("{messages} messages that the CPUs send there and back");
    reporter.doing_for(what, A_PORTION * portions)?;
    let (times, wrong) = ring.by_cpu(end, messages)?;
    results.push(match wrong {
        None => about.spread(name, Some(bytes), messages as usize * bytes, &times),
        Some(why) => return Ok(reporter.result(about.wrong(name, Some(bytes), why))?),
    });
    let told = end.way.hear(Duration::ZERO)?;
    end.way.say(Word::Ready);
    if told != Word::Mark(mark) {
        let why = "what came back was not changed by the other process".to_owned();
        return Ok(reporter.result(about.wrong(PART, Some(bytes), why))?);
    }
    for result in results {
        reporter.result(result)?;
    }
    Ok(())
}

impl Ring {
    /// What was wrong, if anything was.
    fn by_stream(&mut self, end: &mut End<'_>, messages: u32) -> Result<Option<String>, StepError> {
        let mut in_flight = VecDeque::new();
        let outcome = self.go_round(end, messages, &mut in_flight);
        if !matches!(outcome, Ok(None)) {
            let waits = in_flight.iter().flat_map(|batch: &Batch| &batch.waits);
            let ended = end.release(waits);
            // Why it began to fail tells more.
            return outcome.and_then(|found| ended.map(|()| found));
        }
        outcome
    }

    fn go_round(
        &mut self,
        end: &mut End<'_>,
        messages: u32,
        in_flight: &mut VecDeque<Batch>,
    ) -> Result<Option<String>, StepError> {
        end.way.expect(&Word::Ready, A_PORTION)?;
        self.rounds.begin(end.next.wrapping_sub(1));
        self.so_far.store_u32(SO_FAR, end.next.wrapping_sub(1))?;
        let mut left = messages;
        while left > 0 || !in_flight.is_empty() {
            while left > 0 && in_flight.len() < BATCHES {
                let count = left.min(end.batch);
                left -= count;
                // Known before anything of it is in the stream: what fails on the way leaves waits behind.
                in_flight.push_back(Batch {
                    first: end.next,
                    count,
                    waits: Vec::new(),
                });
                if let Some(batch) = in_flight.back_mut() {
                    self.put_in(end, batch)?;
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

    /// Puts a batch into the stream: what it rings, what it waits for, and the word that says so.
    fn put_in(&self, end: &mut End<'_>, batch: &mut Batch) -> Result<(), StepError> {
        let mut program = Program::new();
        for _ in 0..batch.count {
            let number = end.number();
            self.sent
                .write(number, &memory::message(number, 0, end.bytes))?;
            let pair = &mut end.queues.pair;
            pair.receive.post(&[self.back.segment(number)])?;
            let entry = Wqe::send(&[self.sent.segment(number)]).signalled();
            let prepared = pair.send.prepare(&entry)?;
            let wait = pair.receive_completions.take_wait()?;
            program
                .ring(&prepared)
                .wait(&wait, true)
                .write32(&self.so_far, SO_FAR, number);
            batch.waits.push(wait);
        }
        Ok(program.post_to(&end.session.stream, end.session.can)?)
    }

    /// Waits until a batch is back, and compares it.
    fn finish(&mut self, end: &mut End<'_>, batch: &Batch) -> Result<Option<String>, StepError> {
        let watched = batch.waits.iter().map(Watched::completion).collect();
        let guard = end.session.dog.watch(watched, end.session.timeout);
        let last = batch.first.wrapping_add(batch.count - 1);
        end.until("the end of a stream that was released", |_| {
            let number = self.so_far.load_u32(SO_FAR)?;
            self.rounds.look(number, Instant::now());
            Ok(number.wrapping_sub(last) < u32::MAX / 2)
        })?;
        if let Some(released) = guard.finish().first() {
            let failure = StepError::Released(format!(
                "nothing came back from the other process: {released}"
            ));
            return Err(end.why(failure));
        }
        end.queues.completed()?;
        for number in (0..batch.count).map(|number| batch.first.wrapping_add(number)) {
            let found = self.back.read(end.session, number)?;
            if let Some(why) = memory::wrong(number, self.mark, &found) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// The CPU rings and polls.
    fn by_cpu(
        &self,
        end: &mut End<'_>,
        messages: u32,
    ) -> Result<(Vec<f64>, Option<String>), StepError> {
        let mut times = Vec::with_capacity(messages as usize);
        end.way.expect(&Word::Ready, A_PORTION)?;
        for _ in 0..messages {
            let number = end.number();
            self.sent
                .write(number, &memory::message(number, 0, end.bytes))?;
            let pair = &mut end.queues.pair;
            pair.receive.post(&[self.back.segment(number)])?;
            let entry = Wqe::send(&[self.sent.segment(number)]).signalled();
            let prepared = pair.send.prepare(&entry)?;
            let begun = Instant::now();
            prepared.ring()?;
            end.arrives()?;
            times.push(begun.elapsed().as_secs_f64() / 2.0);
            let found = self.back.read(end.session, number)?;
            if let Some(why) = memory::wrong(number, self.mark, &found) {
                return Ok((times, Some(why)));
            }
        }
        Ok((times, None))
    }
}

/// What half a round takes, by looks at how far the stream is.
///
/// Between two looks the CPU may have done other things: a message that was back before it was seen is no end of an interval, which
/// goes on until one is seen that came just before. Each message of an interval is taken to have had an equal share of it.
#[derive(Default)]
struct Rounds {
    times: Vec<f64>,
    seen: u32,
    looked: Option<Instant>,
    /// Where the interval begins: when a message was seen, which, and how long ago the look before was.
    begun: Option<(Instant, u32, Duration)>,
}

/// An interval is known as exactly as this part of itself.
const EXACTLY: u32 = 10;

impl Rounds {
    /// What comes next is behind message `number`, and not measured from it.
    fn begin(&mut self, number: u32) {
        *self = Self {
            times: std::mem::take(&mut self.times),
            seen: number,
            looked: None,
            begun: None,
        };
    }

    fn look(&mut self, number: u32, now: Instant) {
        let before = self.looked.replace(now);
        if number == self.seen {
            return;
        }
        self.seen = number;
        // Without a look before, it may have been there for long.
        let Some(gap) = before.map(|before| now - before) else {
            return;
        };
        if let Some((since, first, first_gap)) = self.begun {
            let (took, came) = (now - since, number.wrapping_sub(first));
            if (gap + first_gap) * EXACTLY > took {
                return;
            }
            let each = took.as_secs_f64() / f64::from(came) / 2.0;
            self.times.extend((0..came).map(|_| each));
        }
        self.begun = Some((now, number, gap));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at these microseconds, each with what was seen.
    fn looked(looks: &[(u64, u32)]) -> Vec<f64> {
        let begun = Instant::now();
        let mut rounds = Rounds::default();
        rounds.begin(10);
        for (at, number) in looks {
            rounds.look(*number, begun + Duration::from_micros(*at));
        }
        rounds
            .times
            .iter()
            .map(|seconds| (seconds * 1e7).round() / 10.0)
            .collect()
    }

    #[test]
    fn a_message_that_is_seen_at_once_ends_its_round() {
        // From the first that was seen: 20 us, 30 us, and half of each.
        let looks = [
            (0, 10),
            (99, 10),
            (100, 11),
            (119, 11),
            (120, 12),
            (149, 12),
            (150, 13),
        ];
        assert_eq!(looked(&looks), [10.0, 15.0]);
        assert_eq!(looked(&[(0, 10), (99, 10)]), [0.0_f64; 0]);
        // The first look says nothing of when it came.
        assert_eq!(
            looked(&[(0, 12), (19, 12), (20, 13), (39, 13), (40, 14)]),
            [10.0]
        );
    }

    #[test]
    fn those_that_came_while_nobody_looked_share_until_one_is_seen() {
        // Nobody looks between 101 and 150; the one of 160 is seen at once: three in 60 us.
        let looks = [
            (99, 10),
            (100, 11),
            (101, 11),
            (150, 13),
            (159, 13),
            (160, 14),
        ];
        assert_eq!(looked(&looks), [10.0, 10.0, 10.0]);
    }
}
