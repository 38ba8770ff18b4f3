//! Round trips between the CPU and a kernel. The producer writes data, if there is any, and a word; the consumer compares the data
//! and answers with a word of its own.

use std::time::{Duration, Instant};

use gpu::{Shape, WRONG_DATA, data_word};

use super::session::Session;
use super::shared::SharedMemory;
use super::task::{DataRounds, Producer};
use crate::model::ProbeResult;
use crate::model::figure::copy::{
    DATA_ROUND_TRIP, GPU_DATA_ROUND_TRIP, GPU_ROUND_TRIP, ROUND_TRIP,
};
use crate::probe::bytes::compare;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::sampling::{clock_cost, elapsed};

/// Size of a word.
const WORD: usize = 4;
/// Shorter than the kernel's own timeout, so that this side reports the failure.
const TIMEOUT: Duration = Duration::from_secs(2);
/// No new round after this time: a simulated one may take milliseconds on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(1);
/// A round trip on a busy machine.
const ROUND: Duration = Duration::from_millis(1);
/// The value that ends the kernel early.
const STOP: u32 = u32::MAX;
/// Blocks with data, if the GPU has as many multiprocessors. gdrcopy's pplat has as many.
const BLOCKS: u32 = 8;

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let choices = &session.task.choices;
    let wanted = &choices.round_trips;
    let rounds = choices.iterations.unwrap_or(0);
    let time = TIMEOUT + ROUND.saturating_mul(rounds);
    for data in std::iter::once(None).chain(wanted.data.as_ref().map(Some)) {
        let what = match data {
            None => "a kernel that answers the CPU",
            Some(_) => "a kernel that exchanges data with the CPU",
        };
        reporter.doing_for(what, time)?;
        let result = match measure(session, data) {
            Ok(result) => result,
            Err(failure) => {
                let why = gpu::sentence(&failure);
                let bytes = Some(data.map_or(WORD, |data| data.bytes));
                let about = &session.about;
                about.impossible(name(wanted.producer, data), bytes, data.is_some(), why)
            }
        };
        reporter.result(result)?;
    }
    Ok(())
}

fn name(producer: Producer, data: Option<&DataRounds>) -> &'static str {
    let round_trip = match (producer, data) {
        (Producer::Cpu, None) => ROUND_TRIP,
        (Producer::Cpu, Some(_)) => DATA_ROUND_TRIP,
        (Producer::Gpu, None) => GPU_ROUND_TRIP,
        (Producer::Gpu, Some(_)) => GPU_DATA_ROUND_TRIP,
    };
    round_trip.name
}

/// Why a run of rounds ended early.
enum Failure {
    /// The consumer read data that was not that of this round.
    WrongData(String),
    /// A block did not answer in time: its number, and its last answer.
    Late(u32, u32),
}

/// Both ends of the rounds: the words of each, one for each block, and the data.
struct Rounds {
    /// The CPU writes them, and the kernel waits for them.
    flags: SharedMemory,
    /// The kernel writes them.
    replies: SharedMemory,
    blocks: u32,
    data: Option<SharedMemory>,
    /// The data of even and of odd rounds.
    sources: [Vec<u8>; 2],
}

fn measure(session: &Session<'_>, data: Option<&DataRounds>) -> Result<ProbeResult, StepError> {
    let (wanted, about) = (&session.task.choices.round_trips, &session.about);
    let blocks = data.map_or(Ok(1), |data| blocks(session, data))?;
    let words = blocks as usize * WORD;
    let bytes = data.map_or(0, |data| data.bytes);
    let at = |place, bytes| SharedMemory::new(session, place, bytes);
    let mut rounds = Rounds {
        flags: at(wanted.flag, words)?,
        replies: at(wanted.reply, words)?,
        blocks,
        data: data.map(|data| at(data.place, bytes)).transpose()?,
        sources: [0, 1].map(|round| data_word(round).to_le_bytes().repeat(bytes / WORD)),
    };
    session.gpu.load_kernels()?;
    let shape = Shape {
        blocks,
        threads: data.map_or(1, |data| data.threads),
        // The first round of a kernel that produces includes its launch, and is not a sample.
        rounds: session.task.round_trips() + u32::from(wanted.producer == Producer::Gpu),
    };
    rounds.launch(&session.stream, shape, wanted.producer)?;
    let timed = session.task.choices.iterations.is_none();
    let ends = timed.then(|| Instant::now() + MAX_TIME);
    let (samples, failure) = match wanted.producer {
        Producer::Cpu => rounds.produce(shape.rounds, ends)?,
        Producer::Gpu => rounds.consume(shape.rounds, ends)?,
    };
    let (name, size) = (name(wanted.producer, data), Some(bytes.max(WORD)));
    match failure {
        Some((round, Failure::Late(block, last))) => {
            let why = format!(
                "block {block} of the kernel did not answer number {round} within {} s; its last answer is {last}",
                TIMEOUT.as_secs()
            );
            return Ok(about.impossible(name, size, true, why));
        }
        Some((round, Failure::WrongData(why))) => {
            return Ok(about.wrong(name, size, format!("round {round}: {why}")));
        }
        None => session.stream.synchronize()?,
    }
    let verified = bytes.saturating_mul(samples.len());
    Ok(about.spread(name, size, verified, &samples))
}

/// The number of blocks, which all run at once.
fn blocks(session: &Session<'_>, data: &DataRounds) -> Result<u32, StepError> {
    let most = session.gpu.multiprocessors()?;
    let blocks = data.blocks.unwrap_or(BLOCKS.min(most));
    if blocks > most {
        return Err(StepError::Option(format!(
            "--blocks {blocks}: this GPU runs {most} blocks at once, one per multiprocessor, and the others would never answer: use \
             --blocks {most} at most"
        )));
    }
    Ok(blocks)
}

/// The samples in seconds, and the round that failed.
type Samples = (Vec<f64>, Option<(u32, Failure)>);

impl Rounds {
    fn launch(
        &self,
        stream: &gpu::Stream,
        shape: Shape,
        producer: Producer,
    ) -> Result<(), gpu::Error> {
        let (flags, replies) = (self.flags.memory(), self.replies.memory());
        match (producer, &self.data) {
            (Producer::Cpu, None) => stream.ping_pong(flags, replies, shape.rounds),
            (Producer::Gpu, None) => stream.ping(flags, replies, shape.rounds),
            (Producer::Cpu, Some(data)) => {
                stream.ping_pong_data(flags, replies, data.memory(), shape)
            }
            (Producer::Gpu, Some(data)) => stream.ping_data(flags, replies, data.memory(), shape),
        }
    }

    /// The CPU begins each round.
    fn produce(&mut self, rounds: u32, ends: Option<Instant>) -> Result<Samples, StepError> {
        let mut samples = Vec::with_capacity(rounds as usize);
        let clock = clock_cost();
        for round in 1..=rounds {
            let begun = Instant::now();
            if ends.is_some_and(|ends| begun > ends) {
                self.send(STOP)?;
                break;
            }
            if let Some(data) = &mut self.data {
                data.write(&self.sources[round as usize % 2])?;
            }
            self.send(round)?;
            if let Some(failure) = self.answer(round, begun)? {
                self.send(STOP)?;
                return Ok((samples, Some((round, failure))));
            }
            samples.push(elapsed(begun, clock).as_secs_f64());
        }
        Ok((samples, None))
    }

    /// The kernel begins each round. A round lasts from the CPU's answer to its next one, without the time in which the CPU compares the
    /// data: the kernel waits meanwhile.
    fn consume(&mut self, rounds: u32, ends: Option<Instant>) -> Result<Samples, StepError> {
        let mut samples = Vec::with_capacity(rounds as usize);
        let clock = clock_cost();
        let mut found = vec![0; self.sources[0].len()];
        let mut begun = Instant::now();
        for round in 1..=rounds {
            if let Some(failure) = self.answer(round, begun)? {
                self.send(STOP)?;
                return Ok((samples, Some((round, failure))));
            }
            let mut comparing = Duration::ZERO;
            if let Some(data) = &self.data {
                data.read(&mut found)?;
                let read = Instant::now();
                if let Some(wrong) = compare(&self.sources[round as usize % 2], &found) {
                    self.send(STOP)?;
                    let failure = Failure::WrongData(wrong.to_string());
                    return Ok((samples, Some((round, failure))));
                }
                comparing = read.elapsed() + clock;
            }
            if ends.is_some_and(|ends| begun > ends) {
                self.send(STOP)?;
                break;
            }
            self.send(round)?;
            if round > 1 {
                let exchange = elapsed(begun, clock).saturating_sub(comparing);
                samples.push(exchange.as_secs_f64());
            }
            begun = Instant::now();
        }
        Ok((samples, None))
    }

    /// Writes a number to the flag of each block.
    fn send(&mut self, number: u32) -> Result<(), StepError> {
        match self.blocks {
            1 => self.flags.store(number),
            blocks => self.flags.write(&number.to_le_bytes().repeat(blocks as usize)),
        }
    }

    /// Waits until the reply of each block is `round`.
    fn answer(&self, round: u32, begun: Instant) -> Result<Option<Failure>, StepError> {
        let (mut block, mut polls) = (0, 0_u32);
        loop {
            let reply = self.replies.load(block as usize * WORD)?;
            if reply == round {
                block += 1;
                if block == self.blocks {
                    return Ok(None);
                }
                continue;
            }
            if reply == WRONG_DATA {
                let bytes = self.sources[0].len();
                let why = format!(
                    "the kernel saw the number before all of the {bytes} bytes that the CPU wrote before it"
                );
                return Ok(Some(Failure::WrongData(why)));
            }
            polls = polls.wrapping_add(1);
            // Reading the clock costs as much as reading the reply. A pause would delay the answer by up to 50 ns.
            if polls.is_multiple_of(4096) && begun.elapsed() > TIMEOUT {
                return Ok(Some(Failure::Late(block, reply)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(replies: &[u32], data: &[u8]) -> Rounds {
        let gpu = gpu::Gpu::sim();
        let host = |bytes: &[u8]| {
            let memory = gpu.pinned(bytes.len()).expect("memory");
            memory.write(0, bytes).expect("written");
            SharedMemory::Host(memory)
        };
        let words: Vec<u8> = replies.iter().flat_map(|word| word.to_le_bytes()).collect();
        Rounds {
            flags: host(&words),
            replies: host(&words),
            blocks: replies.len() as u32,
            data: (!data.is_empty()).then(|| host(data)),
            sources: [vec![0xa5; data.len()], vec![0x5a; data.len()]],
        }
    }

    #[test]
    fn every_block_must_answer() {
        let answer_of = |replies: [u32; 3]| {
            let begun = Instant::now() - TIMEOUT;
            rounds(&replies, &[]).answer(7, begun).expect("words")
        };
        assert!(answer_of([7, 7, 7]).is_none());
        assert!(matches!(answer_of([7, WRONG_DATA, 7]), Some(Failure::WrongData(_))));
        assert!(matches!(answer_of([7, 7, 6]), Some(Failure::Late(2, 6))));
        assert!(matches!(answer_of([STOP, 7, 7]), Some(Failure::Late(0, STOP))));
    }

    #[test]
    fn cpu_compares_what_the_kernel_wrote() {
        let consume = |data: &[u8]| {
            let mut rounds = rounds(&[1], data);
            let (samples, failure) = rounds.consume(1, None).expect("words");
            assert!(samples.is_empty(), "the launch is not a sample");
            (failure, rounds.flags.load(0).expect("a word"))
        };
        let (failure, flag) = consume(&[0x5a; 8]);
        assert!(failure.is_none() && flag == 1);
        let (failure, flag) = consume(&[0x5a, 0x5a, 0x5a, 0xa5]);
        let Some((1, Failure::WrongData(why))) = failure else {
            panic!("the data is wrong");
        };
        assert_eq!(why, "byte 3 is 0xa5 and should be 0x5a");
        assert_eq!(flag, STOP, "the kernel ends");
    }
}
