//! Rank 0: it chooses the steps and reports the results.

use std::time::{Duration, Instant};

use gpu::Pattern;

use super::buffer::Buffer;
use super::message::{Hello, Message, RankPair, Step, pairs};
use super::world::{MeasuredRank, message_time};
use crate::model::figure::mpi::MessageMemory;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::statistics::typical_seconds;
use crate::probe::terms::Terms;
use crate::probe::verdict::Subject;

/// Messages in flight for bandwidth, as in OSU's osu_bw; fewer large ones, which fill a link alone.
pub fn window(bytes: usize) -> u32 {
    ((64 << 20) / bytes.max(1)).clamp(2, 64) as u32
}

/// Messages before the clock of a latency starts.
const WARM: u32 = 20;
/// Samples of a step.
const PART: u32 = 100;
/// Fewest and most messages of a latency, and windows of a bandwidth.
const PING_PONGS: (f64, f64) = (20.0, 20_000.0);
const WINDOWS: (f64, f64) = (3.0, 400.0);
/// Advice for wrong bytes.
const WRONG_HINT: &str =
    "MPI reported success: the library, or a transport that it chose, damages messages";

/// The memory of one kind.
pub struct Buffers {
    pub kind: MessageMemory,
    pub out: Buffer,
    pub into: Buffer,
}

pub struct Client<'w, 'r, 'o> {
    pub world: &'w MeasuredRank,
    pub reporter: &'r mut Reporter<'o>,
    pub terms: &'w Terms,
    pub sizes: Vec<usize>,
    pub backend: &'w str,
    pub buffers: &'w [Buffers],
    pub seed: u64,
}

impl Client<'_, '_, '_> {
    /// Measures each pair, and ends the other ranks.
    pub fn run(mut self, hellos: &[Hello]) -> Result<(), StepError> {
        let done = self.measure(hellos);
        let ranks = 1..self.world.size();
        match &done {
            Ok(()) => ranks
                .into_iter()
                .try_for_each(|rank| self.world.send_message(rank, &Message::Step(Step::End)))?,
            Err(failure) => {
                ranks.into_iter().for_each(|rank| self.world.send_failure(rank, failure))
            }
        }
        done
    }

    fn measure(&mut self, hellos: &[Hello]) -> Result<(), StepError> {
        let pairs = pairs(hellos);
        let cases = pairs.len() * self.sizes.len() * self.buffers.len();
        self.reporter.expect_more(3 * cases as u64);
        for pair in pairs {
            let Some(other) = hellos.get(pair.rank as usize) else {
                continue;
            };
            for at in 0..self.buffers.len() {
                let kind = self.buffers[at].kind;
                if kind == MessageMemory::Gpu && other.gpu.is_none() {
                    let note = format!("rank {} has no GPU memory that MPI takes", pair.rank);
                    self.reporter.note(note)?;
                    continue;
                }
                let about = self.subject(pair, kind, hellos);
                for bytes in self.sizes.clone() {
                    self.verify(pair, &about, at, bytes)?;
                    self.ping_pong(pair, &about, at, bytes)?;
                    self.stream(pair, &about, at, bytes)?;
                }
            }
        }
        Ok(())
    }

    /// As in `rank 0 > rank 1 (same host)`.
    fn subject(&self, pair: RankPair, kind: MessageMemory, hellos: &[Hello]) -> Subject {
        let host = |rank: u32| hellos.get(rank as usize).map_or("", |hello| &hello.host);
        let place = if pair.same_host {
            "same host".to_owned()
        } else {
            format!("{} to {}", host(0), host(pair.rank))
        };
        let simulated = match kind {
            MessageMemory::Gpu if self.is_gpu_simulated() && !self.backend.contains("sim") => {
                "-sim"
            }
            _ => "",
        };
        Subject::new(
            &format!("rank 0 > rank {} ({place})", pair.rank),
            &format!("{}{simulated}", self.backend),
        )
    }

    fn is_gpu_simulated(&self) -> bool {
        let mut buffers = self.buffers.iter();
        buffers.any(|buffers| buffers.out.is_simulated_gpu())
    }

    /// Begins a step of the other rank; the ranks that have nothing to do wait.
    fn begin(
        &mut self,
        pair: RankPair,
        what: String,
        step: Step,
        time: Duration,
    ) -> Result<(), StepError> {
        self.reporter.doing_for(what, time)?;
        for rank in (1..self.world.size()).filter(|rank| *rank != pair.rank) {
            self.world.send_message(rank, &Message::Step(Step::Wait(time)))?;
        }
        self.world.send_message(pair.rank, &Message::Step(step))
    }

    fn verify(
        &mut self,
        pair: RankPair,
        about: &Subject,
        at: usize,
        bytes: usize,
    ) -> Result<(), StepError> {
        let buffers = &self.buffers[at];
        let memory = buffers.kind;
        let name = memory.validated();
        self.seed += 2;
        let seeds = [self.seed - 1, self.seed];
        buffers.out.fill(bytes, Pattern::new(seeds[0]))?;
        // What arrives replaces another pattern.
        buffers.into.fill(bytes, Pattern::new(seeds[0]))?;
        let step = Step::Verify { memory, bytes, seeds };
        let time = message_time(bytes);
        let what = format!("{bytes} bytes of {} memory to verify", memory.name());
        self.begin(pair, what, step, time)?;
        let (world, rank) = (self.world, pair.rank);
        let sent = world.send(&buffers.out, bytes, rank)?;
        world.wait(&mut [sent], rank, time)?;
        let Message::Found(theirs) = world.receive_message(rank, time)? else {
            return Err(StepError::OutOfStep);
        };
        let arriving = world.receive(&buffers.into, bytes, rank)?;
        world.wait(&mut [arriving], rank, time)?;
        let ours = buffers.into.check(bytes, Pattern::new(seeds[1]))?;
        Ok(self.reporter.result(match theirs.or(ours) {
            None => about.right(&name, Some(bytes), 2 * bytes),
            Some(wrong) => about.wrong(&name, Some(bytes), format!("{wrong}. {WRONG_HINT}")),
        })?)
    }

    fn ping_pong(
        &mut self,
        pair: RankPair,
        about: &Subject,
        at: usize,
        bytes: usize,
    ) -> Result<(), StepError> {
        let memory = self.buffers[at].kind;
        let point = self.terms.depth.rdma_point().as_secs_f64();
        let run = |this: &mut Self, count: u32, time: Duration| {
            // The first one waits until the other rank has read the step.
            let step = Step::PingPong { memory, bytes, count: count + 1 };
            let what = format!("{bytes} bytes of {} memory, back and forth", memory.name());
            this.begin(pair, what, step, time)?;
            let buffers = &this.buffers[at];
            let mut times = Vec::with_capacity(count as usize);
            let mut begun = Instant::now();
            for index in 0..=count {
                let sent = this.world.send(&buffers.out, bytes, pair.rank)?;
                let arriving = this.world.receive(&buffers.into, bytes, pair.rank)?;
                let limit = message_time(bytes);
                this.world.wait(&mut [sent, arriving], pair.rank, limit)?;
                let now = Instant::now();
                // Half the round-trip time.
                if index > 0 {
                    times.push(now.duration_since(begun).as_secs_f64() / 2.0);
                }
                begun = now;
            }
            Ok::<_, StepError>(times)
        };
        let first = run(self, WARM, message_time(bytes) * 2 * WARM)?;
        let single = typical_seconds(&first) * 2.0;
        let count = (point / single).clamp(PING_PONGS.0, PING_PONGS.1) as usize;
        let time = message_time(bytes) * 2 * PART;
        let samples = in_parts(count, point, |count| run(self, count, time))?;
        let name = memory.latency().name;
        Ok(self.reporter.result(about.latency(name, Some(bytes), 0, &samples))?)
    }

    fn stream(
        &mut self,
        pair: RankPair,
        about: &Subject,
        at: usize,
        bytes: usize,
    ) -> Result<(), StepError> {
        let (memory, in_flight) = (self.buffers[at].kind, window(bytes));
        let point = self.terms.depth.rdma_point().as_secs_f64();
        let run = |this: &mut Self, windows: u32, time: Duration| {
            let step = Step::Stream { memory, bytes, windows: windows + 1 };
            let what = format!("windows of {bytes} bytes of {} memory", memory.name());
            this.begin(pair, what, step, time)?;
            let (world, buffers) = (this.world, &this.buffers[at]);
            let mut times = Vec::with_capacity(windows as usize);
            let mut begun = Instant::now();
            for index in 0..=windows {
                let window = (0..in_flight).map(|_| world.send(&buffers.out, bytes, pair.rank));
                let mut window = window.collect::<Result<Vec<_>, _>>()?;
                let limit = message_time(bytes);
                world.wait(&mut window, pair.rank, limit)?;
                let answer = world.receive(&buffers.into, 1, pair.rank)?;
                world.wait(&mut [answer], pair.rank, limit)?;
                let now = Instant::now();
                if index > 0 {
                    times.push(now.duration_since(begun).as_secs_f64() / f64::from(in_flight));
                }
                begun = now;
            }
            Ok::<_, StepError>(times)
        };
        let first = run(self, 1, message_time(bytes) * in_flight)?;
        let single = typical_seconds(&first) * f64::from(in_flight);
        let windows = (point / single).clamp(WINDOWS.0, WINDOWS.1) as usize;
        let time = message_time(bytes) * in_flight * PART;
        let samples = in_parts(windows, point, |windows| run(self, windows, time))?;
        let name = memory.bandwidth().name;
        Ok(self.reporter.result(about.bandwidth(name, bytes, 0, &samples, None))?)
    }
}

/// `count` samples in parts, fewer if they take much longer than `seconds`: ranks poll, and a busy machine suspends them at any time.
fn in_parts(
    count: usize,
    seconds: f64,
    mut part: impl FnMut(u32) -> Result<Vec<f64>, StepError>,
) -> Result<Vec<f64>, StepError> {
    let until = Instant::now() + Duration::from_secs_f64(4.0 * seconds);
    let mut samples = Vec::with_capacity(count);
    while samples.len() < count {
        samples.extend(part((count - samples.len()).min(PART as usize) as u32)?);
        if Instant::now() >= until {
            break;
        }
    }
    Ok(samples)
}
