//! Round trips with a kernel: the CPU stores a number through the mapping, and the kernel answers in host memory. With `--data` the
//! CPU writes data before the number, and blocks of threads compare it before they answer.

use std::time::{Duration, Instant};

use gpu::{HostMemory, Shape, WRONG_DATA, data_word};

use super::session::{Session, map_as};
use super::task::DataRounds;
use crate::model::ProbeResult;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::sampling::{clock_cost, elapsed};

const NAME: &str = "ping-pong";
const DATA_NAME: &str = "ping-pong.data";
/// Size of the flag.
const FLAG: usize = 4;
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
    let rounds = session.task.choices.iterations.unwrap_or(0);
    let time = TIMEOUT + ROUND.saturating_mul(rounds);
    reporter.doing_for("a kernel that answers the CPU", time)?;
    let result = match flag_only(session) {
        Ok(result) => result,
        Err(failure) => session
            .about
            .impossible(NAME, Some(FLAG), false, gpu::sentence(&failure)),
    };
    reporter.result(result)?;
    let Some(data) = &session.task.choices.data else {
        return Ok(());
    };
    reporter.doing_for("a kernel that compares data and answers the CPU", time)?;
    let result = match with_data(session, data) {
        Ok(result) => result,
        Err(failure) => {
            let why = gpu::sentence(&failure);
            session
                .about
                .impossible(DATA_NAME, Some(data.bytes), true, why)
        }
    };
    Ok(reporter.result(result)?)
}

/// How a round ended.
enum Answer {
    Right,
    /// The data that the kernel read was not that of this round.
    WrongData,
    /// A block did not answer in time: its number, and its last answer.
    Late(u32, u32),
}

/// Waits until each of `blocks` replies is `round`.
fn answer(
    replies: &HostMemory,
    blocks: u32,
    round: u32,
    begun: Instant,
) -> Result<Answer, gpu::Error> {
    let (mut block, mut polls) = (0, 0_u32);
    loop {
        let reply = replies.load_u32(block as usize * FLAG)?;
        if reply == round {
            block += 1;
            if block == blocks {
                return Ok(Answer::Right);
            }
            continue;
        }
        if reply == WRONG_DATA {
            return Ok(Answer::WrongData);
        }
        polls = polls.wrapping_add(1);
        // Reading the clock costs as much as reading the reply. A pause would delay the answer by up to 50 ns.
        if polls.is_multiple_of(4096) && begun.elapsed() > TIMEOUT {
            return Ok(Answer::Late(block, reply));
        }
    }
}

/// The samples in seconds, and the number of the round that failed.
type Rounds = (Vec<f64>, Option<(u32, Answer)>);

/// Runs the rounds: `send` begins one.
fn rounds(
    session: &Session<'_>,
    replies: &HostMemory,
    blocks: u32,
    mut send: impl FnMut(u32) -> Result<(), StepError>,
) -> Result<Rounds, StepError> {
    let rounds = session.task.round_trips();
    let mut samples = Vec::with_capacity(rounds as usize);
    let (first, clock) = (Instant::now(), clock_cost());
    for round in 1..=rounds {
        let begun = Instant::now();
        if session.task.choices.iterations.is_none() && begun - first > MAX_TIME {
            send(STOP)?;
            break;
        }
        send(round)?;
        match answer(replies, blocks, round, begun)? {
            Answer::Right => samples.push(elapsed(begun, clock).as_secs_f64()),
            failed => {
                send(STOP)?;
                return Ok((samples, Some((round, failed))));
            }
        }
    }
    Ok((samples, None))
}

fn late(round: u32, block: u32, last: u32) -> String {
    format!(
        "block {block} of the kernel did not answer number {round} within {} s; its last answer is {last}",
        TIMEOUT.as_secs()
    )
}

fn flag_only(session: &Session<'_>) -> Result<ProbeResult, StepError> {
    let choices = &session.task.choices;
    let flag = session.gpu.allocate(choices.allocation(), 64 << 10)?;
    let reply = session.gpu.pinned(64)?;
    let stream = session.gpu.stream()?;
    session.gpu.load_kernels()?;
    stream.fill(&flag, 0, flag.len(), 0)?;
    stream.synchronize()?;
    let mut mapping = map_as(&session.gdr, &flag, choices)?;
    stream.ping_pong(&flag, &reply, session.task.round_trips())?;
    let (samples, failed) = rounds(session, &reply, 1, |number| {
        mapping.store(0, number)?;
        mapping.fence();
        Ok(())
    })?;
    if let Some((round, Answer::Late(block, last))) = failed {
        let why = late(round, block, last);
        return Ok(session.about.impossible(NAME, Some(FLAG), true, why));
    }
    stream.synchronize()?;
    Ok(session.about.spread(NAME, Some(FLAG), 0, &samples))
}

fn with_data(session: &Session<'_>, data: &DataRounds) -> Result<ProbeResult, StepError> {
    let choices = &session.task.choices;
    let most = session.gpu.multiprocessors()?;
    let blocks = data.blocks.unwrap_or(BLOCKS.min(most));
    if blocks > most {
        return Err(StepError::Option(format!(
            "--blocks {blocks}: this GPU runs {most} blocks at once, one per multiprocessor, and the others would never answer: use \
             --blocks {most} at most"
        )));
    }
    // A flag and a reply of each block.
    let flag_bytes = blocks as usize * FLAG;
    let memory = session.gpu.allocate(choices.allocation(), data.bytes)?;
    let flags = session.gpu.allocate(choices.allocation(), flag_bytes)?;
    let replies = session.gpu.pinned(flag_bytes)?;
    let stream = session.gpu.stream()?;
    session.gpu.load_kernels()?;
    stream.fill(&flags, 0, flag_bytes, 0)?;
    stream.synchronize()?;
    let mut data_mapping = map_as(&session.gdr, &memory, choices)?;
    let mut flag_mapping = map_as(&session.gdr, &flags, choices)?;
    let words = |word: u32, bytes: usize| word.to_le_bytes().repeat(bytes / FLAG);
    let sources = [0, 1].map(|round| words(data_word(round), data.bytes));
    let shape = Shape {
        blocks,
        threads: data.threads,
        rounds: session.task.round_trips(),
    };
    stream.ping_pong_data(&flags, &replies, &memory, shape)?;
    let mut flag = vec![0; flag_bytes];
    let (samples, failed) = rounds(session, &replies, blocks, |number| {
        if number != STOP {
            data_mapping.write(0, &sources[number as usize % 2])?;
        }
        for word in flag.chunks_exact_mut(FLAG) {
            word.copy_from_slice(&number.to_le_bytes());
        }
        flag_mapping.write(0, &flag)?;
        flag_mapping.fence();
        Ok(())
    })?;
    let about = &session.about;
    let bytes = Some(data.bytes);
    match failed {
        Some((round, Answer::Late(block, last))) => {
            let why = late(round, block, last);
            return Ok(about.impossible(DATA_NAME, bytes, true, why));
        }
        Some((round, _)) => {
            let why = format!(
                "the kernel saw number {round} before all of the {} bytes that the CPU wrote before it",
                data.bytes
            );
            return Ok(about.wrong(DATA_NAME, bytes, why));
        }
        None => stream.synchronize()?,
    }
    let verified = data.bytes.saturating_mul(samples.len());
    Ok(about.spread(DATA_NAME, bytes, verified, &samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_of(replies: [u32; 3]) -> Answer {
        let memory = gpu::Gpu::sim().pinned(12).expect("memory");
        let bytes = replies.map(u32::to_le_bytes).concat();
        memory.write(0, &bytes).expect("written");
        let begun = Instant::now() - TIMEOUT;
        answer(&memory, 3, 7, begun).expect("words")
    }

    #[test]
    fn every_block_must_answer() {
        assert!(matches!(answer_of([7, 7, 7]), Answer::Right));
        assert!(matches!(answer_of([7, WRONG_DATA, 7]), Answer::WrongData));
        assert!(matches!(answer_of([7, 7, 6]), Answer::Late(2, 6)));
        assert!(matches!(answer_of([STOP, 7, 7]), Answer::Late(0, STOP)));
    }
}
