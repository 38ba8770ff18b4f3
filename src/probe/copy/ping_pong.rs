//! Round trip with a kernel: the CPU stores a number through the mapping, and the kernel answers in host memory.

use std::time::{Duration, Instant};

use super::session::{Session, map_as};
use crate::model::ProbeResult;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

const NAME: &str = "ping-pong";
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

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let rounds = session.task.choices.iterations.unwrap_or(0);
    let time = TIMEOUT + ROUND.saturating_mul(rounds);
    reporter.doing_for("a kernel that answers the CPU", time)?;
    let result = match measure(session) {
        Ok(result) => result,
        Err(failure) => session
            .about
            .impossible(NAME, Some(FLAG), false, gpu::sentence(&failure)),
    };
    Ok(reporter.result(result)?)
}

fn measure(session: &Session<'_>) -> Result<ProbeResult, StepError> {
    let rounds = session.task.round_trips();
    let flag = session
        .gpu
        .allocate(session.task.choices.allocation(), 64 << 10)?;
    let reply = session.gpu.pinned(64)?;
    let stream = session.gpu.stream()?;
    session.gpu.load_kernels()?;
    stream.fill(&flag, 0, flag.len(), 0)?;
    stream.synchronize()?;
    let mut mapping = map_as(&session.gdr, &flag, &session.task.choices)?;
    stream.ping_pong(&flag, &reply, rounds)?;
    let mut samples = Vec::with_capacity(rounds as usize);
    let first = Instant::now();
    for round in 1..=rounds {
        let begun = Instant::now();
        if session.task.choices.iterations.is_none() && begun - first > MAX_TIME {
            mapping.store(0, STOP)?;
            mapping.fence();
            break;
        }
        mapping.store(0, round)?;
        mapping.fence();
        let mut polls = 0_u32;
        loop {
            let answer = reply.load_u32(0)?;
            if answer == round {
                break;
            }
            polls = polls.wrapping_add(1);
            // Reading the clock costs as much as reading the reply.
            if polls.is_multiple_of(4096) && begun.elapsed() > TIMEOUT {
                mapping.store(0, STOP)?;
                mapping.fence();
                let why = format!(
                    "the kernel did not answer number {round} within {} s; its last answer is {answer}",
                    TIMEOUT.as_secs()
                );
                return Ok(session.about.impossible(NAME, Some(FLAG), true, why));
            }
            std::hint::spin_loop();
        }
        samples.push(begun.elapsed().as_secs_f64());
    }
    stream.synchronize()?;
    Ok(session.about.spread(NAME, Some(FLAG), 0, &samples))
}
