//! Messages round a loop, with kernels between: the stream waits for a message, a kernel compares every word of it, another writes the
//! next one, and the stream rings the doorbell; the CPU has put all of it in beforehand. And the same driven by the CPU.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gdsync::hca::{Hca, MemoryRegion};
use gdsync::queue::Wait;
use gdsync::wire::Wqe;
use gdsync::{Place, Program, Watched};
use gpu::{Allocation, Check, DeviceMemory, HostMemory, Pattern, pointer};

use super::plan::{MESSAGE, MOST, driven};
use super::queues::Queues;
use super::session::Session;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Messages that are put in together: upstream's batch.
const BATCH: u32 = 20;
/// Batches that are in at once: while one runs the next is put in.
const BATCHES: usize = 2;

/// Messages of a step that the parent hears of, and how long one may take: ten milliseconds each, as on an emulated machine that is busy.
const PORTION: u32 = 5000;
const A_PORTION: Duration = Duration::from_secs(50);

/// Goes round, and compares the two ways.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let Some(hca) = &session.task.hca else {
        return Ok(());
    };
    let about = session.about_queues();
    let messages = session.task.terms.depth.async_messages();
    let bytes = match session.task.terms.sizes.as_slice() {
        [] => MESSAGE,
        // Kernels copy words of 16 bytes.
        sizes => {
            sizes
                .iter()
                .copied()
                .max()
                .unwrap_or(MESSAGE)
                .clamp(16, MOST)
                & !15
        }
    };
    let name = "async.loopback.stream.latency";
    reporter.doing("queues, and memory that the HCA reaches")?;
    let mut ring = Ring::new(session, hca.open(session)?, bytes)?;
    if let Some(why) = &ring.staged {
        reporter.note(format!(
            "messages lie in pinned host memory, and kernels copy them there and back: {why}"
        ))?;
    }
    reporter.expect_more(u64::from(messages.div_ceil(PORTION)) + 1);
    let (mut times, mut wrong, mut left) = (Vec::new(), None, messages);
    while left > 0 && wrong.is_none() {
        let some = left.min(PORTION);
        reporter.doing_for(
            format!("{some} of {messages} messages that a stream sends"),
            A_PORTION,
        )?;
        let (more, found) = ring.by_stream(session, some)?;
        times.extend(more);
        (wrong, left) = (found, left - some);
    }
    reporter.result(match wrong {
        None => about.spread(name, Some(bytes), messages as usize * bytes, &times),
        Some(why) => about.wrong(name, Some(bytes), why),
    })?;
    let name = "async.loopback.cpu.latency";
    let messages = driven(messages);
    reporter.doing_for(
        format!("{messages} messages that the CPU sends"),
        A_PORTION * messages.div_ceil(PORTION),
    )?;
    let (times, wrong) = ring.by_cpu(session, messages)?;
    Ok(reporter.result(match wrong {
        None => about.spread(name, Some(bytes), messages as usize * bytes, &times),
        Some(why) => about.wrong(name, Some(bytes), why),
    })?)
}

/// Memory and queues of the loop.
pub(super) struct Ring {
    pub(super) queues: Queues,
    sent: Ended,
    arrived: Ended,
    /// A result of each comparison that is in progress.
    results: DeviceMemory,
    pub(super) from: MemoryRegion,
    to: MemoryRegion,
    bytes: usize,
    /// The number of the next message, which is its pattern's.
    next: u64,
    /// Why the HCA does not reach the GPU's memory.
    pub(super) staged: Option<String>,
}

/// An end of the way: the GPU's memory, and the host's beside it, where the HCA reaches that alone.
struct Ended {
    memory: DeviceMemory,
    host: Option<HostMemory>,
}

/// What was put in and is not known to be right.
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

impl Ring {
    pub(super) fn new(
        session: &Session<'_>,
        hca: Box<dyn Hca>,
        bytes: usize,
    ) -> Result<Self, StepError> {
        let queues = Queues::new(session, hca, BATCH * BATCHES as u32)?;
        let take = || -> Result<DeviceMemory, StepError> {
            let memory = session
                .gpu
                .allocate(Allocation::Malloc, bytes.next_multiple_of(64 << 10))?;
            if !session.gpu.is_sim() {
                // A driver that does not know it is asked for no copies that it would bear on.
                let _ = pointer::set_sync_memops(memory.address());
            }
            Ok(memory)
        };
        let (sent, arrived) = (take()?, take()?);
        let registered = |memory: &DeviceMemory| -> Result<MemoryRegion, String> {
            let gdr = session
                .allocator
                .gdr()
                .ok_or("the CPU maps no GPU memory here")?;
            let said = |error: gdsync::Error| gpu::sentence(&error);
            let place = Place::device(memory.clone(), gdr).map_err(said)?;
            queues
                .register(&place)
                .map_err(|failure| gpu::sentence(&failure))
        };
        let results = session
            .gpu
            .allocate(Allocation::Malloc, Check::BYTES * BATCH as usize * BATCHES)?;
        let both = registered(&sent).and_then(|from| Ok((from, registered(&arrived)?)));
        let (from, to, hosts, staged) = match both {
            Ok((from, to)) => (from, to, [None, None], None),
            Err(why) => {
                let hosts = [session.gpu.pinned(bytes)?, session.gpu.pinned(bytes)?];
                let [from, to] =
                    [&hosts[0], &hosts[1]].map(|host| queues.register(&Place::host(host.clone())));
                (from?, to?, hosts.map(Some), Some(why))
            }
        };
        let [from_host, to_host] = hosts;
        Ok(Self {
            from,
            to,
            queues,
            sent: Ended {
                memory: sent,
                host: from_host,
            },
            arrived: Ended {
                memory: arrived,
                host: to_host,
            },
            results,
            bytes,
            next: 1,
            staged,
        })
    }

    /// Has a kernel write a message, where the HCA takes it.
    fn write(&self, session: &Session<'_>, pattern: Pattern) -> Result<(), StepError> {
        let Ended { memory, host } = &self.sent;
        session
            .stream
            .fill_pattern(memory, 0, self.bytes, pattern, 0)?;
        if let Some(host) = host {
            session.stream.copy_words(host, 0, memory, 0, self.bytes)?;
        }
        Ok(())
    }

    /// Has a kernel compare the message that arrived; what it finds is at this place of the results.
    fn compare(
        &self,
        session: &Session<'_>,
        pattern: Pattern,
        at: usize,
    ) -> Result<Check, StepError> {
        let Ended { memory, host } = &self.arrived;
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

    /// Seconds for each message, a sample a batch; and what was wrong.
    pub(super) fn by_stream(
        &mut self,
        session: &Session<'_>,
        messages: u32,
    ) -> Result<(Vec<f64>, Option<String>), StepError> {
        let mut in_flight = VecDeque::new();
        let outcome = self.go_round(session, messages, &mut in_flight);
        if !matches!(outcome, Ok((_, None))) {
            // What is in still may wait for what does not come.
            let waits = in_flight.iter().flat_map(|batch: &Batch| &batch.waits);
            let guard = session
                .dog
                .watch(waits.map(Watched::completion).collect(), session.timeout);
            let ended = session.stream.synchronize_within(session.timeout * 4);
            drop(guard);
            // Why it began to fail tells more.
            return outcome.and_then(|found| Ok(ended.map(|()| found)?));
        }
        outcome
    }

    fn go_round(
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
                // Known before anything of it is in the stream: what fails on the way leaves waits behind.
                in_flight.push_back(Batch::new(session)?);
                if let Some(batch) = in_flight.back_mut() {
                    self.put_in(session, batch, count, number % BATCHES)?;
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

    /// Puts so many messages into the stream.
    fn put_in(
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
                .post(&[self.to.segment(0, self.bytes as u32)])?;
            let entry = Wqe::send(&[self.from.segment(0, self.bytes as u32)]).signalled();
            let prepared = self.queues.pair.send.prepare(&entry)?;
            let wait = self.queues.pair.receive_completions.take_wait()?;
            self.write(session, pattern)?;
            let mut program = Program::new();
            program.ring(&prepared).wait(&wait, true);
            batch.waits.push(wait);
            program.post_to(&session.stream, session.can)?;
            let check =
                self.compare(session, pattern, slot * BATCH as usize + position as usize)?;
            batch.checks.push((number, check));
        }
        Ok(session.stream.record(&batch.done)?)
    }

    /// Waits until a batch is done, and says what its kernels found.
    fn finish(
        &mut self,
        session: &Session<'_>,
        batch: &Batch,
        slot: usize,
    ) -> Result<(Instant, Option<String>), StepError> {
        let watched = batch.waits.iter().map(Watched::completion).collect();
        let guard = session.dog.watch(watched, session.timeout);
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
            // An entry that failed tells more; that a word is no completion was our doing.
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
                    "message {number}: {} words are wrong, the first at byte {}: the kernel that came after the wait did not find \
                     what was sent",
                    mismatches.words,
                    first * 4
                );
                return Ok((ended, Some(wrong)));
            }
        }
        Ok((ended, None))
    }

    /// The CPU waits for the kernel that writes the message, rings, polls, and launches the kernel that compares it.
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
                .post(&[self.to.segment(0, self.bytes as u32)])?;
            let entry = Wqe::send(&[self.from.segment(0, self.bytes as u32)]).signalled();
            let prepared = pair.send.prepare(&entry)?;
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
                    Some(format!("message {number} is not what was sent")),
                ));
            }
        }
        Ok((times, None))
    }
}
