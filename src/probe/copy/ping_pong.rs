//! A round trip with a kernel: the CPU stores a number through the mapping, the kernel sees it and answers in host memory.

use std::time::{Duration, Instant};

use gpu::Allocation;

use super::session::{Session, map};
use crate::model::ProbeResult;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

const NAME: &str = "ping-pong";
/// A flag is one word.
const FLAG: usize = 4;
/// The kernel's own timeout is longer: this one ends first and tells.
const TIMEOUT: Duration = Duration::from_secs(2);
/// No round is begun after this: on a busy machine without a GPU one may take milliseconds.
const ENOUGH: Duration = Duration::from_secs(1);
/// What ends the kernel early, and what it answers then.
const STOP: u32 = u32::MAX;

/// Plays, and times each round.
pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing_for("a kernel that answers the CPU", TIMEOUT)?;
    let result = match play(session) {
        Ok(result) => result,
        Err(failure) => session
            .about
            .impossible(NAME, Some(FLAG), false, gpu::sentence(&failure)),
    };
    Ok(reporter.result(result)?)
}

fn play(session: &Session<'_>) -> Result<ProbeResult, StepError> {
    let rounds = session.task.terms.depth.round_trips();
    let flag = session.gpu.allocate(Allocation::Malloc, 64 << 10)?;
    let reply = session.gpu.pinned(64)?;
    let stream = session.gpu.stream()?;
    session.gpu.load_kernels()?;
    stream.fill(&flag, 0, flag.len(), 0)?;
    stream.synchronize()?;
    let mut mapping = map(&session.gdr, &flag)?;
    stream.ping_pong(&flag, &reply, rounds)?;
    let mut samples = Vec::with_capacity(rounds as usize);
    let first = Instant::now();
    for round in 1..=rounds {
        let begun = Instant::now();
        if begun - first > ENOUGH {
            mapping.store(0, STOP)?;
            mapping.fence();
            break;
        }
        mapping.store(0, round)?;
        mapping.fence();
        let mut looks = 0_u32;
        loop {
            let answer = reply.load_u32(0)?;
            if answer == round {
                break;
            }
            looks = looks.wrapping_add(1);
            // The clock is looked at rarely: it costs as much as a look at the reply.
            if looks.is_multiple_of(4096) && begun.elapsed() > TIMEOUT {
                mapping.store(0, STOP)?;
                mapping.fence();
                let why = format!(
                    "the kernel did not answer number {round} within {} s: it answered {answer}",
                    TIMEOUT.as_secs()
                );
                return Ok(session.about.impossible(NAME, Some(FLAG), true, why));
            }
            std::hint::spin_loop();
        }
        samples.push(begun.elapsed().as_secs_f64());
    }
    stream.synchronize()?;
    Ok(session.about.latency(NAME, Some(FLAG), 0, &samples))
}
