//! Latency from a store of the CPU, through a stream that waits for the word, to the word that the stream writes back.

use std::time::{Duration, Instant};

use gdsync::Program;
use gpu::Compare;

use super::session::{Session, pause, wait_for_word, watched};
use crate::model::figure::asynchronous::{POLL_GPU, POLL_HOST};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Offsets of the words, on separate cache lines.
pub(super) const FLAG: usize = 0;
pub(super) const REPLY: usize = 256;
/// Time for the stream to reach its wait.
pub(super) const SETTLE: Duration = Duration::from_micros(20);

/// Measures with the flag at each location. The reply is in host memory, which the CPU polls without crossing the bus.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let samples = session.task.terms.depth.async_samples();
    let replies = session.words[0].1.clone();
    for (location, words) in session.words.clone() {
        let label = if location == "gpu" { POLL_GPU.name } else { POLL_HOST.name };
        reporter.doing_for(
            format!("a stream that answers the CPU ({location})"),
            Duration::from_secs(30),
        )?;
        words.store_u32(FLAG, 0)?;
        replies.store_u32(REPLY, 0)?;
        let mut times = Vec::with_capacity(samples as usize);
        let mut lost = None;
        for round in 1..=samples {
            let mut program = Program::new();
            program.wait32(&words, FLAG, round, Compare::Geq).write32(&replies, REPLY, round);
            let flag = watched("the flag", &words, FLAG, round, Compare::Geq)?;
            let guard = session.watchdog.watch(vec![flag], session.timeout);
            program.post_to(&session.stream, session.capabilities)?;
            pause(SETTLE);
            let begun = Instant::now();
            words.store_u32(FLAG, round)?;
            if !wait_for_word(&replies, REPLY, round, session.timeout)? {
                lost = Some(format!(
                    "the stream did not answer number {round} within {} ms",
                    session.timeout.as_millis()
                ));
            }
            times.push(begun.elapsed().as_secs_f64());
            session.stream.synchronize_within(session.timeout * 2)?;
            drop(guard);
            if lost.is_some() {
                break;
            }
        }
        reporter.result(match lost {
            None => session.about.spread(label, Some(4), 0, &times),
            Some(why) => session.about.impossible(label, Some(4), true, why),
        })?;
    }
    Ok(())
}
