//! Queue pairs, each connected to itself, that a kernel drives with RDMA WRITEs, and the memory of its messages.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gdsync::hca::{Access, Driver, Hca, MemoryRegion, QueuePair, Request, RetryPolicy};
use gdsync::kernel::{Doorbell, KernelRequest, queue};
use gdsync::wire::{Syndrome, Wqe};
use gdsync::{MappedMemory, MemoryLocation};
use gpu::{Batches, PostEnd, Posted, Posting, message_word};

use super::cases::{Case, Ringing};
use crate::probe::asynchronous::polls::Polls;
use crate::probe::asynchronous::queues::allocate;
use crate::probe::asynchronous::session::Session;
use crate::probe::failure::StepError;

/// Launches per case, each a sample.
const LAUNCHES: u32 = 20;
/// CQEs of a queue, more than batches in flight.
const COMPLETIONS: u32 = 64;

pub struct Bench {
    lanes: Vec<Lane>,
    posting: Posting,
    batches: Batches,
    bytes: usize,
    note: Option<String>,
    // Dropped last.
    _hca: Rc<dyn Hca>,
}

/// One queue pair with its messages.
pub struct Lane {
    pub pair: QueuePair,
    destination: MappedMemory,
    /// The word that the CPU copies to the register.
    word: Option<MappedMemory>,
    slots: usize,
    _regions: [MemoryRegion; 2],
}

impl Bench {
    pub fn new(
        session: &Session<'_>,
        hca: &Rc<dyn Hca>,
        case: &Case,
        bytes: usize,
    ) -> Result<Self, StepError> {
        let (mut lanes, mut queues, mut note) = (Vec::new(), Vec::new(), None);
        for _ in 0..case.pairs {
            let (pair, why) = create(hca, case)?;
            note = why.or(note);
            let slots = (case.batch() * (case.ahead() + 1)) as usize;
            let (source, why) = memory(session, hca, slots * bytes)?;
            note = why.or(note);
            let (destination, _) = memory(session, hca, slots * bytes)?;
            let word = match case.ringing {
                Ringing::Assisted => Some(session.allocator.place(MemoryLocation::Host, 8)?),
                Ringing::Register | Ringing::RegisterAlone | Ringing::BlueFlame => None,
            };
            let mut requests = Vec::new();
            for slot in 0..slots {
                let at = slot * bytes;
                let segment = source.1.segment(at as u64, bytes as u32);
                let wqe = Wqe::write(destination.1.remote(at as u64), &[segment]);
                let is_last = (slot + 1).is_multiple_of(case.batch() as usize);
                let message = source.0.part(at, bytes)?;
                requests.push(KernelRequest {
                    wqe: if is_last { wqe.signalled() } else { wqe },
                    inline: case.inline.then(|| message.clone()),
                    source: Some(message),
                    destination: Some(destination.0.part(at, bytes)?),
                });
            }
            let doorbell = match (&word, case.ringing) {
                (Some(word), _) => Doorbell::Assisted(word.clone()),
                (None, Ringing::BlueFlame) => Doorbell::BlueFlame,
                (None, _) => Doorbell::Eight,
            };
            queues.push(queue(&pair, &requests, &doorbell)?);
            lanes.push(Lane {
                pair,
                destination: destination.0,
                word,
                slots,
                _regions: [source.1, destination.1],
            });
        }
        let batches = Batches {
            rounds: 0,
            batch: case.batch(),
            ahead: case.ahead(),
            words: bytes as u32 / 4,
            threads: case.threads,
            timeout: session.timeout,
        };
        Ok(Self {
            posting: session.stream.load_queues(&queues, batches)?,
            lanes,
            batches,
            bytes,
            note,
            _hca: Rc::clone(hca),
        })
    }

    /// Where queues or messages do not lie in GPU memory, and why.
    pub fn note(&self) -> Option<String> {
        self.note.clone()
    }

    /// The queue pairs.
    #[cfg(test)]
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Seconds per message of each launch, and a wrong message. `step` reports the messages that are left before each launch.
    pub fn run(
        &mut self,
        session: &Session<'_>,
        messages: u32,
        step: &mut dyn FnMut(u32) -> Result<(), StepError>,
    ) -> Result<(Vec<f64>, Option<String>), StepError> {
        let pairs = self.lanes.len() as u32;
        let mut left = messages / self.batches.batch / pairs;
        let launch = left.div_ceil(LAUNCHES).max(1);
        let mut times = Vec::new();
        while left > 0 {
            step(left * self.batches.batch * pairs)?;
            let rounds = left.min(launch);
            let posted = self.launch(session, rounds)?;
            left -= rounds;
            let begun = posted.iter().map(|posted| posted.begun).min();
            let ended = posted.iter().map(|posted| posted.begun + posted.time).max();
            let time = ended.zip(begun).map(|(ended, begun)| ended - begun);
            let count = f64::from(rounds * self.batches.batch * pairs);
            times.push(time.unwrap_or_default().as_secs_f64() / count);
            for (lane, posted) in self.lanes.iter().zip(&posted) {
                if let Some((words, first)) = posted.wrong {
                    let why = format!(
                        "message {first}: the kernel found {words} wrong words where messages arrived"
                    );
                    return Ok((times, Some(why)));
                }
                if let Some(why) = self.read(lane, posted.next)? {
                    return Ok((times, Some(why)));
                }
            }
        }
        Ok((times, None))
    }

    /// One launch of the kernel, and what each of its blocks did.
    fn launch(&self, session: &Session<'_>, rounds: u32) -> Result<Vec<Posted>, StepError> {
        let batches = Batches { rounds, ..self.batches };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for lane in &self.lanes {
                if let Some(word) = &lane.word {
                    let register = &lane.pair.send.parts().register;
                    scope.spawn(|| assist(word, register, &stop));
                }
            }
            let posted = session.stream.post(&self.posting, batches);
            // Each wait of the kernel ends by itself; all of them together take longer.
            let limit = session.timeout * 4 + Duration::from_millis(10) * rounds;
            let ended = posted.and_then(|()| session.stream.synchronize_within(limit));
            stop.store(true, Ordering::Relaxed);
            ended
        })?;
        let lanes = 0..self.lanes.len();
        let posted = lanes.map(|lane| self.outcome(lane, session.timeout));
        posted.collect()
    }

    fn outcome(&self, lane: usize, timeout: Duration) -> Result<Posted, StepError> {
        let posted = self.posting.outcome(lane)?;
        let batch = posted.batches;
        Err(match posted.end {
            PostEnd::Done => return Ok(posted),
            PostEnd::Failed { syndrome, vendor } => {
                StepError::Wqe { syndrome: Syndrome::of(syndrome), vendor }
            }
            PostEnd::Late => StepError::Released(format!(
                "the CQE of batch {batch} did not come within {} ms: the doorbell was lost, or the NIC has stopped",
                timeout.as_millis()
            )),
            PostEnd::Full { need } => StepError::Released(format!(
                "the send queue is full: a batch needs {need} blocks, more than are free"
            )),
            PostEnd::Other { counter } => StepError::Released(format!(
                "the CQE of batch {batch} is that of another WQE, with counter {counter:#06x}"
            )),
        })
    }

    /// Why the latest messages in the memory where they arrived are not those before number `next`, read by the CPU.
    fn read(&self, lane: &Lane, next: u32) -> Result<Option<String>, StepError> {
        let mut found = vec![0; self.bytes];
        for number in next.saturating_sub(lane.slots as u32)..next {
            let slot = number as usize % lane.slots;
            lane.destination.read(slot * self.bytes, &mut found)?;
            let (words, _) = found.as_chunks::<4>();
            let mut words = words.iter().zip(0..);
            if let Some((_, k)) =
                words.find(|(word, k)| u32::from_ne_bytes(**word) != message_word(number, *k))
            {
                return Ok(Some(format!(
                    "message {number}: the CPU found word {k} wrong where it arrived"
                )));
            }
        }
        Ok(None)
    }
}

/// Copies doorbells from a word to the register.
fn assist(word: &MappedMemory, register: &MappedMemory, stop: &AtomicBool) {
    let (mut last, mut polls) = (0, Polls::default());
    while !stop.load(Ordering::Relaxed) {
        // Words of pinned memory: neither access fails.
        match word.load_u64(0) {
            Ok(value) if value != last => {
                last = value;
                let _ = register.store_u64(0, value);
            }
            _ => {
                polls.pause();
            }
        }
    }
}

/// A queue pair connected to itself, with its queues in GPU memory, or in host memory and why.
fn create(hca: &Rc<dyn Hca>, case: &Case) -> Result<(QueuePair, Option<String>), StepError> {
    // A WRITE with one segment or our inline data has one block.
    let blocks = case.batch() * (case.ahead() + 1);
    let mut request = Request {
        send_blocks: blocks.next_power_of_two().max(64),
        send_completions: COMPLETIONS,
        queues: MemoryLocation::Gpu,
        records: MemoryLocation::Gpu,
        completions: [MemoryLocation::Gpu, MemoryLocation::Host],
        driver: match case.ringing {
            Ringing::Assisted => Driver::Assisted,
            Ringing::RegisterAlone => Driver::KernelsWithoutRecord,
            Ringing::Register | Ringing::BlueFlame => Driver::Kernels,
        },
        ..Request::default()
    };
    let mut why = None;
    let pair = match hca.create(&request) {
        Ok(pair) => pair,
        Err(error) => {
            let host = MemoryLocation::Host;
            (request.queues, request.records, request.completions) = (host, host, [host; 2]);
            why = Some(format!(
                "the queues that kernels drive lie in host memory: {}",
                gpu::sentence(&error)
            ));
            hca.create(&request)?
        }
    };
    hca.connect(pair.endpoint, pair.endpoint, RetryPolicy::default())?;
    Ok((pair, why))
}

/// Registered memory for messages: GPU memory, or pinned host memory and why.
fn memory(
    session: &Session<'_>,
    hca: &Rc<dyn Hca>,
    bytes: usize,
) -> Result<((MappedMemory, MemoryRegion), Option<String>), StepError> {
    let access = Access { local_write: true, remote_write: true, ..Access::NONE };
    let in_gpu_memory = || -> Result<(MappedMemory, MemoryRegion), String> {
        let gdr = session.allocator.gdr();
        let gdr = gdr.ok_or("no backend maps GPU memory for the CPU")?;
        let memory = allocate(session, bytes).map_err(|error| gpu::sentence(&error))?;
        let place = MappedMemory::device(memory, gdr).map_err(|error| gpu::sentence(&error))?;
        let region = hca.register(&place, access);
        Ok((place, region.map_err(|error| gpu::sentence(&error))?))
    };
    match in_gpu_memory() {
        Ok(found) => Ok((found, None)),
        Err(why) => {
            let place = session.allocator.place(MemoryLocation::Host, bytes)?;
            let region = hca.register(&place, access)?;
            let why = format!("messages of kernels lie in pinned host memory: {why}");
            Ok(((place, region), Some(why)))
        }
    }
}
