//! Messages in a loop, driven by a stream and, for comparison, by the CPU. In the stream a kernel writes a message, the stream rings the
//! doorbell and waits for the message, and another kernel compares every word; the CPU queues all of that beforehand.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gdsync::hca::{Hca, MemoryRegion};
use gdsync::queue::Wait;
use gdsync::wire::Wqe;
use gdsync::{Place, Program, Watched};
use gpu::{Allocation, Check, DeviceMemory, HostMemory, Pattern};

use super::plan::cpu_messages;
use super::queues::{Queues, allocate};
use super::session::Session;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Messages queued together, as in libgdsync's tests.
const BATCH: u32 = 20;
/// Batches in flight: while one runs, the CPU queues the next.
const BATCHES: usize = 2;

/// Messages per reported step.
const STEP: u32 = 5000;
/// Time for a step: ten milliseconds per message, for a busy emulated machine.
const STEP_TIME: Duration = Duration::from_secs(50);

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let Some(hca) = &session.task.hca else {
        return Ok(());
    };
    let about = session.about_queues();
    let messages = session.task.terms.depth.async_messages();
    let bytes = session.task.terms.message_bytes();
    let name = "async.loopback.stream.latency";
    reporter.doing("queues and registered memory")?;
    let mut looped = Loop::new(session, hca.open(session)?, bytes)?;
    if let Some(why) = &looped.staged {
        reporter.note(format!(
            "messages lie in pinned host memory, and kernels copy them to and from it: {why}"
        ))?;
    }
    reporter.expect_more(u64::from(messages.div_ceil(STEP)) + 1);
    let (mut times, mut wrong, mut left) = (Vec::new(), None, messages);
    while left > 0 && wrong.is_none() {
        let count = left.min(STEP);
        reporter.doing_for(
            format!("{count} of {messages} messages that a stream sends"),
            STEP_TIME,
        )?;
        let (more, found) = looped.by_stream(session, count)?;
        times.extend(more);
        (wrong, left) = (found, left - count);
    }
    let result = about.spread(name, Some(bytes), messages as usize * bytes, &times);
    reporter.result(about.checked(result, wrong))?;
    let name = "async.loopback.cpu.latency";
    let messages = cpu_messages(messages);
    reporter.doing_for(
        format!("{messages} messages that the CPU sends"),
        STEP_TIME * messages.div_ceil(STEP),
    )?;
    let (times, wrong) = looped.by_cpu(session, messages)?;
    let result = about.spread(name, Some(bytes), messages as usize * bytes, &times);
    Ok(reporter.result(about.checked(result, wrong))?)
}

/// Memory and queues of the loop.
pub(super) struct Loop {
    pub(super) queues: Queues,
    sent: Message,
    received: Message,
    /// The results of the comparisons in flight.
    results: DeviceMemory,
    pub(super) source: MemoryRegion,
    target: MemoryRegion,
    bytes: usize,
    /// The number of the next message, also the seed of its pattern.
    next: u64,
    /// Why the HCA cannot access GPU memory.
    pub(super) staged: Option<String>,
}

/// A message in GPU memory, with a host buffer if the HCA can only access host memory.
struct Message {
    memory: DeviceMemory,
    host: Option<HostMemory>,
}

/// Queued messages that are not verified yet.
struct Batch {
    checks: Vec<(u64, Check)>,
    waits: Vec<Wait>,
    begun: Instant,
    done: gpu::Event,
}

impl Batch {
    fn new(session: &Session<'_>) -> Result<Self, StepError> {
        Ok(Self {
            checks: Vec::new(),
            waits: Vec::new(),
            begun: Instant::now(),
            done: session.gpu.event()?,
        })
    }
}

impl Loop {
    pub(super) fn new(
        session: &Session<'_>,
        hca: Box<dyn Hca>,
        bytes: usize,
    ) -> Result<Self, StepError> {
        let queues = Queues::new(session, hca, BATCH * BATCHES as u32)?;
        let (sent, received) = (allocate(session, bytes)?, allocate(session, bytes)?);
        let results = session
            .gpu
            .allocate(Allocation::Malloc, Check::BYTES * BATCH as usize * BATCHES)?;
        let regions = queues
            .register_gpu(session, &sent)
            .and_then(|(_, source)| Ok((source, queues.register_gpu(session, &received)?.1)));
        let (source, target, hosts, staged) = match regions {
            Ok((source, target)) => (source, target, [None, None], None),
            Err(why) => {
                let hosts = [session.gpu.pinned(bytes)?, session.gpu.pinned(bytes)?];
                let [source, target] =
                    [&hosts[0], &hosts[1]].map(|host| queues.register(&Place::host(host.clone())));
                (source?, target?, hosts.map(Some), Some(why))
            }
        };
        let [sent_host, received_host] = hosts;
        Ok(Self {
            source,
            target,
            queues,
            sent: Message {
                memory: sent,
                host: sent_host,
            },
            received: Message {
                memory: received,
                host: received_host,
            },
            results,
            bytes,
            next: 1,
            staged,
        })
    }

    /// Queues a kernel that writes a message where the HCA reads it.
    fn write(&self, session: &Session<'_>, pattern: Pattern) -> Result<(), StepError> {
        let Message { memory, host } = &self.sent;
        session
            .stream
            .fill_pattern(memory, 0, self.bytes, pattern, 0)?;
        if let Some(host) = host {
            session.stream.copy_words(host, 0, memory, 0, self.bytes)?;
        }
        Ok(())
    }

    /// Queues a kernel that compares the received message; its result is number `at`.
    fn compare(
        &self,
        session: &Session<'_>,
        pattern: Pattern,
        at: usize,
    ) -> Result<Check, StepError> {
        let Message { memory, host } = &self.received;
        if let Some(host) = host {
            session.stream.copy_words(memory, 0, host, 0, self.bytes)?;
        }
        let range = (0, self.bytes);
        let check = session.stream.start_check(
            memory,
            range,
            (pattern, 0),
            &self.results,
            at * Check::BYTES,
        )?;
        Ok(check)
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
            let guard = session
                .watchdog
                .watch(waits.map(Watched::completion).collect(), session.timeout);
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
        let (mut left, mut number) = (messages, 0);
        let mut last = None;
        while left > 0 || !in_flight.is_empty() {
            while left > 0 && in_flight.len() < BATCHES {
                let count = left.min(BATCH);
                // Added before its operations are queued, so that a failure can release its waits.
                in_flight.push_back(Batch::new(session)?);
                if let Some(batch) = in_flight.back_mut() {
                    self.queue(session, batch, count, number % BATCHES)?;
                }
                number += 1;
                left -= count;
            }
            let Some(batch) = in_flight.pop_front() else {
                break;
            };
            let slot = (number - 1 - in_flight.len()) % BATCHES;
            let (ended, wrong) = self.finish(session, &batch, slot)?;
            if wrong.is_some() {
                return Ok((times, wrong));
            }
            let begun = last.unwrap_or(batch.begun);
            times.push(ended.duration_since(begun).as_secs_f64() / batch.checks.len() as f64);
            last = Some(ended);
        }
        Ok((times, None))
    }

    /// Queues messages in the stream.
    fn queue(
        &mut self,
        session: &Session<'_>,
        batch: &mut Batch,
        count: u32,
        slot: usize,
    ) -> Result<(), StepError> {
        for position in 0..count {
            let number = self.next;
            self.next += 1;
            let pattern = Pattern::new(number);
            self.queues
                .pair
                .receive
                .post(&[self.target.segment(0, self.bytes as u32)])?;
            let wqe = Wqe::send(&[self.source.segment(0, self.bytes as u32)]).signalled();
            let prepared = self.queues.pair.send.prepare(&wqe)?;
            let wait = self.queues.pair.receive_completions.take_wait()?;
            self.write(session, pattern)?;
            let mut program = Program::new();
            program.ring(&prepared).wait(&wait, true);
            batch.waits.push(wait);
            program.post_to(&session.stream, session.capabilities)?;
            let check =
                self.compare(session, pattern, slot * BATCH as usize + position as usize)?;
            batch.checks.push((number, check));
        }
        Ok(session.stream.record(&batch.done)?)
    }

    /// Waits for a batch, and returns its end and a wrong message.
    fn finish(
        &mut self,
        session: &Session<'_>,
        batch: &Batch,
        slot: usize,
    ) -> Result<(Instant, Option<String>), StepError> {
        let watched = batch.waits.iter().map(Watched::completion).collect();
        let guard = session.watchdog.watch(watched, session.timeout);
        let begun = Instant::now();
        while !batch.done.is_done()? {
            if begun.elapsed() > session.timeout * 4 {
                return Err(StepError::Late {
                    what: "the end of a stream that was released",
                    timeout: session.timeout * 4,
                });
            }
            std::hint::spin_loop();
        }
        let ended = Instant::now();
        if let Some(released) = guard.finish().first() {
            // A failed WQE explains more. Other errors come from the released word, which is no completion.
            return Err(match self.queues.completed() {
                Err(failed @ StepError::Wqe { .. }) => failed,
                _ => StepError::Released(released.to_string()),
            });
        }
        self.queues.completed()?;
        let mut found = vec![0xff; Check::BYTES * batch.checks.len()];
        session.reader.read(
            &self.results,
            slot * BATCH as usize * Check::BYTES,
            &mut found,
        )?;
        let (results, _) = found.as_chunks::<{ Check::BYTES }>();
        for ((number, check), result) in batch.checks.iter().zip(results) {
            let mismatches = check.finding(*result)?;
            if let Some(first) = mismatches.first {
                let wrong = format!(
                    "message {number}: {} words are wrong, the first at byte {}: the kernel after the wait did not read what was sent",
                    mismatches.words,
                    first * 4
                );
                return Ok((ended, Some(wrong)));
            }
        }
        Ok((ended, None))
    }

    /// The CPU waits for the kernel that writes a message, rings the doorbell, polls, and launches the kernel that compares it.
    pub(super) fn by_cpu(
        &mut self,
        session: &Session<'_>,
        messages: u32,
    ) -> Result<(Vec<f64>, Option<String>), StepError> {
        let mut times = Vec::with_capacity(messages as usize);
        for _ in 0..messages {
            let number = self.next;
            self.next += 1;
            let pattern = Pattern::new(number);
            let begun = Instant::now();
            let pair = &mut self.queues.pair;
            pair.receive
                .post(&[self.target.segment(0, self.bytes as u32)])?;
            let wqe = Wqe::send(&[self.source.segment(0, self.bytes as u32)]).signalled();
            let prepared = pair.send.prepare(&wqe)?;
            self.write(session, pattern)?;
            session.stream.synchronize()?;
            prepared.ring()?;
            if !self.queues.arrives(session.timeout)? {
                return Err(StepError::Late {
                    what: "a message that the CPU sent",
                    timeout: session.timeout,
                });
            }
            let check = self.compare(session, pattern, 0)?;
            session.stream.synchronize()?;
            times.push(begun.elapsed().as_secs_f64());
            let mut result = [0xff; Check::BYTES];
            session.stream.read(&self.results, 0, &mut result)?;
            if check.finding(result)?.words > 0 {
                return Ok((
                    times,
                    Some(format!("message {number} differs from what was sent")),
                ));
            }
        }
        Ok((times, None))
    }
}
