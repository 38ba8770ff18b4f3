//! Messages in a loop, driven by a stream and, for comparison, by the CPU. In the stream a kernel writes a message, the stream rings the
//! doorbell and waits for the message, and another kernel compares every word; the CPU queues all of that beforehand. Without kernels the
//! CPU writes and compares, outside the measured time.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use gdsync::hca::Hca;
use gdsync::queue::{Prepared, Wait};
use gdsync::{Program, Watched};
use gpu::{Allocation, Check, DeviceMemory};

use super::plan::cpu_messages;
use super::polls;
use super::queues::Queues;
use super::session::Session;
use super::settings::{BATCHES, Order, Series};
use super::slots::{self, Slots};
use crate::model::ProbeResult;
use crate::model::figure::asynchronous::{MessageDriver, MessagePath};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Messages per reported step.
const STEP: u32 = 5000;
/// Time for a step: ten milliseconds per message, for a busy emulated machine.
const STEP_TIME: Duration = Duration::from_secs(50);

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let Some(hca) = &session.task.hca else {
        return Ok(());
    };
    let (series, too_long) = session.task.settings.series(&session.task.terms);
    for bytes in too_long {
        reporter.note(format!("no datagram has {bytes} bytes, so these are left out"))?;
    }
    reporter.doing("queues and registered memory")?;
    let hca = hca.open(session)?;
    for series in series {
        let mut looped = Loop::new(session, Rc::clone(&hca), series)?;
        if let Some(why) = &looped.staged {
            reporter.note(format!(
                "messages lie in pinned host memory, and kernels copy them to and from it: {why}"
            ))?;
        }
        for result in looped.measure(session, reporter)? {
            reporter.result(result)?;
        }
    }
    Ok(())
}

/// Memory and queues of the loop.
pub(super) struct Loop {
    pub(super) queues: Queues,
    pub(super) sent: Slots,
    received: Slots,
    /// The results of the comparisons in flight.
    results: DeviceMemory,
    series: Series,
    kernels: bool,
    /// The number of the next message.
    next: u32,
    /// Why the HCA cannot access GPU memory.
    pub(super) staged: Option<String>,
}

/// Queued messages that are not verified yet.
struct Batch {
    first: u32,
    count: u32,
    checks: Vec<Check>,
    waits: Vec<Wait>,
    begun: Instant,
    done: gpu::Event,
}

impl Loop {
    pub(super) fn new(
        session: &Session<'_>,
        hca: Rc<dyn Hca>,
        series: Series,
    ) -> Result<Self, StepError> {
        let slots = series.slots();
        // Twice the messages in flight: a send may complete after its message has arrived.
        let queues = Queues::new(session, hca, slots as u32 * 2, series.transport)?;
        let (mut sent, staged) = Slots::new(session, &queues, slots, series.bytes)?;
        let (mut received, _) = Slots::new(session, &queues, slots, series.bytes)?;
        let kernels = session.task.settings.kernels;
        if kernels {
            sent = sent.for_kernels(session)?;
            received = received.for_kernels(session)?;
        }
        let results = session.gpu.allocate(Allocation::Malloc, Check::BYTES * slots)?;
        Ok(Self { queues, sent, received, results, series, kernels, next: 0, staged })
    }

    /// The latencies by the stream and by the CPU.
    fn measure(
        &mut self,
        session: &Session<'_>,
        reporter: &mut Reporter<'_>,
    ) -> Result<[ProbeResult; 2], StepError> {
        let (about, bytes) = (session.about_queues(), self.series.bytes);
        let messages = self.series.messages(&session.task.terms);
        let spread = |name: &str, messages: u32, (times, wrong): (Vec<f64>, Option<String>)| {
            let result = about.spread(name, Some(bytes), messages as usize * bytes, &times);
            about.checked(result, wrong)
        };
        reporter.expect_more(u64::from(messages.div_ceil(STEP)) + 1);
        let (mut times, mut wrong, mut left) = (Vec::new(), None, messages);
        while left > 0 && wrong.is_none() {
            let count = left.min(STEP);
            reporter.doing_for(
                format!("{count} of {messages} messages that a stream sends"),
                STEP_TIME,
            )?;
            let (more, found) = self.by_stream(session, count)?;
            times.extend(more);
            (wrong, left) = (found, left - count);
        }
        let by_stream = spread(
            &self.series.latency(MessagePath::Loopback, MessageDriver::Stream),
            messages,
            (times, wrong),
        );
        let messages = cpu_messages(messages);
        reporter.doing_for(
            format!("{messages} messages that the CPU sends"),
            STEP_TIME * messages.div_ceil(STEP),
        )?;
        let found = self.by_cpu(session, messages)?;
        let by_cpu = spread(
            &self.series.latency(MessagePath::Loopback, MessageDriver::Cpu),
            messages,
            found,
        );
        Ok([by_stream, by_cpu])
    }

    /// Seconds per message, one sample per batch, and a wrong message.
    pub(super) fn by_stream(
        &mut self,
        session: &Session<'_>,
        messages: u32,
    ) -> Result<(Vec<f64>, Option<String>), StepError> {
        let mut in_flight = VecDeque::new();
        let outcome = self.run_batches(session, messages, &mut in_flight);
        if !matches!(outcome, Ok((_, None))) {
            // Queued waits may never be satisfied.
            let waits = in_flight.iter().flat_map(|batch: &Batch| &batch.waits);
            let guard =
                session.watchdog.watch(waits.map(Watched::completion).collect(), session.timeout);
            let ended = session.stream.synchronize_within(session.timeout * 4);
            drop(guard);
            // The first error explains more than this one.
            return outcome.and_then(|found| Ok(ended.map(|()| found)?));
        }
        outcome
    }

    fn run_batches(
        &mut self,
        session: &Session<'_>,
        messages: u32,
        in_flight: &mut VecDeque<Batch>,
    ) -> Result<(Vec<f64>, Option<String>), StepError> {
        let mut times = Vec::new();
        let mut left = messages;
        let mut last = None;
        while left > 0 || !in_flight.is_empty() {
            while left > 0 && in_flight.len() < BATCHES {
                let count = left.min(self.series.batch);
                // Added before its operations are queued, so that a failure can release its waits.
                in_flight.push_back(Batch {
                    first: self.next,
                    count,
                    checks: Vec::new(),
                    waits: Vec::new(),
                    begun: Instant::now(),
                    done: session.gpu.event()?,
                });
                self.next = self.next.wrapping_add(count);
                left -= count;
                if let Some(batch) = in_flight.back_mut() {
                    self.queue(session, batch)?;
                }
            }
            let Some(batch) = in_flight.pop_front() else {
                break;
            };
            let (ended, wrong) = self.finish(session, &batch)?;
            if wrong.is_some() {
                return Ok((times, wrong));
            }
            let begun = last.unwrap_or(batch.begun);
            times.push(ended.duration_since(begun).as_secs_f64() / f64::from(batch.count));
            last = Some(ended);
        }
        Ok((times, None))
    }

    /// Queues the messages of a batch in the stream.
    fn queue(&mut self, session: &Session<'_>, batch: &mut Batch) -> Result<(), StepError> {
        let mut sends = Vec::new();
        for number in batch.numbers() {
            self.queues.receive(self.received.segment(number))?;
            sends.push(self.queues.send(self.sent.segment(number))?);
            let wait = self.queues.pair.receive_completions.take_wait()?;
            batch.waits.push(wait);
            if !self.kernels {
                let bytes = self.series.bytes;
                self.sent.write(number, &slots::message(number, 0, bytes))?;
            }
        }
        let mut program = Program::new();
        let mut checks = Vec::new();
        let mut work: Vec<_> = batch.numbers().zip(&batch.waits).zip(&sends).collect();
        if self.series.order == Order::OutOfOrder {
            for ((number, _), prepared) in &work {
                self.ring(session, &mut program, *number, prepared)?;
            }
            work.reverse();
        }
        for ((number, wait), prepared) in work {
            if self.series.order == Order::InOrder {
                self.ring(session, &mut program, number, prepared)?;
            }
            checks.extend(self.wait(session, &mut program, number, wait)?);
        }
        batch.checks = checks;
        program.post_to(&session.stream, session.capabilities)?;
        Ok(session.stream.record(&batch.done)?)
    }

    /// A kernel writes the message, and the stream rings.
    fn ring(
        &self,
        session: &Session<'_>,
        program: &mut Program,
        number: u32,
        prepared: &Prepared,
    ) -> Result<(), StepError> {
        if self.kernels {
            post(session, program)?;
            self.sent.fill(session, number)?;
        }
        program.ring(prepared);
        Ok(())
    }

    /// The stream waits for the message, and kernels compute and compare.
    fn wait(
        &self,
        session: &Session<'_>,
        program: &mut Program,
        number: u32,
        wait: &Wait,
    ) -> Result<Option<Check>, StepError> {
        program.wait(wait, true);
        session.compute(program)?;
        if !self.kernels {
            return Ok(None);
        }
        post(session, program)?;
        let check = self.received.compare(session, number, &self.results, self.position(number));
        check.map(Some)
    }

    /// Position of a message's result.
    fn position(&self, number: u32) -> usize {
        number as usize % self.series.slots()
    }

    /// Waits for a batch, and returns its end and a wrong message.
    fn finish(
        &mut self,
        session: &Session<'_>,
        batch: &Batch,
    ) -> Result<(Instant, Option<String>), StepError> {
        let watched = batch.waits.iter().map(Watched::completion).collect();
        let guard = session.watchdog.watch(watched, session.timeout);
        let timeout = session.timeout * 4;
        if !polls::until(timeout, || Ok(batch.done.is_done()?))? {
            return Err(StepError::Late { what: "the end of a stream that was released", timeout });
        }
        let ended = Instant::now();
        if let Some(released) = guard.finish().first() {
            // A failed WQE explains more. Other errors come from the released word, which is not a completion.
            return Err(match self.queues.completed() {
                Err(failed @ StepError::Wqe { .. }) => failed,
                _ => StepError::Released(released.to_string()),
            });
        }
        self.queues.completed()?;
        let wrong = if self.kernels {
            self.compared(session, batch)?
        } else {
            self.read(session, batch.numbers())?
        };
        Ok((ended, wrong))
    }

    /// The first message of a batch that a kernel found wrong.
    fn compared(&self, session: &Session<'_>, batch: &Batch) -> Result<Option<String>, StepError> {
        let mut found = vec![0xff; self.results.len()];
        session.reader.read(&self.results, 0, &mut found)?;
        let (results, _) = found.as_chunks::<{ Check::BYTES }>();
        let mut numbers: Vec<u32> = batch.numbers().collect();
        if self.series.order == Order::OutOfOrder {
            numbers.reverse();
        }
        for (number, check) in numbers.into_iter().zip(&batch.checks) {
            let result = results.get(self.position(number)).copied();
            let mismatches = check.finding(result.unwrap_or([0xff; Check::BYTES]))?;
            if let Some(first) = mismatches.first {
                return Ok(Some(format!(
                    "message {number}: {} words are wrong, the first at byte {}: the kernel after the wait did not read what was sent",
                    mismatches.words,
                    first * 4
                )));
            }
        }
        Ok(None)
    }

    /// The first message that the CPU finds wrong.
    fn read(
        &self,
        session: &Session<'_>,
        numbers: impl Iterator<Item = u32>,
    ) -> Result<Option<String>, StepError> {
        for number in numbers {
            let found = self.received.read(session, number)?;
            if let Some(why) = slots::wrong(number, 0, &found) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// The CPU waits for the kernel that writes a message, rings the doorbell, polls, and launches the kernels after it.
    pub(super) fn by_cpu(
        &mut self,
        session: &Session<'_>,
        messages: u32,
    ) -> Result<(Vec<f64>, Option<String>), StepError> {
        let mut times = Vec::with_capacity(messages as usize);
        for _ in 0..messages {
            let number = self.next;
            self.next = number.wrapping_add(1);
            if !self.kernels {
                let bytes = self.series.bytes;
                self.sent.write(number, &slots::message(number, 0, bytes))?;
            }
            let begun = Instant::now();
            self.queues.receive(self.received.segment(number))?;
            let prepared = self.queues.send(self.sent.segment(number))?;
            if self.kernels {
                self.sent.fill(session, number)?;
                session.stream.synchronize()?;
            }
            prepared.ring()?;
            if !self.queues.arrives(session.timeout)? {
                return Err(StepError::Late {
                    what: "a message that the CPU sent",
                    timeout: session.timeout,
                });
            }
            let wrong = if self.kernels {
                session.compute_now()?;
                let check = self.received.compare(session, number, &self.results, 0)?;
                session.stream.synchronize()?;
                times.push(begun.elapsed().as_secs_f64());
                let mut result = [0xff; Check::BYTES];
                session.stream.read(&self.results, 0, &mut result)?;
                (check.finding(result)?.words > 0)
                    .then(|| format!("message {number} differs from what was sent"))
            } else {
                session.computed()?;
                times.push(begun.elapsed().as_secs_f64());
                self.read(session, std::iter::once(number))?
            };
            if wrong.is_some() {
                return Ok((times, wrong));
            }
        }
        Ok((times, None))
    }
}

impl Batch {
    fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let first = self.first;
        (0..self.count).map(move |number| first.wrapping_add(number))
    }
}

/// Posts what is listed, before a kernel.
fn post(session: &Session<'_>, program: &mut Program) -> Result<(), StepError> {
    if !program.is_empty() {
        program.post_to(&session.stream, session.capabilities)?;
        program.clear();
    }
    Ok(())
}
