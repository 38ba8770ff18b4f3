//! How soon a stream that waits sees a word that the CPU writes: from the CPU's store until the word that the stream writes back.

use std::time::{Duration, Instant};

use gdsync::{Program, Watched};
use gpu::Compare;

use super::session::{Session, seen};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Where the words are: on cache lines of their own.
const FLAG: usize = 0;
const REPLY: usize = 256;
/// The stream is given so long to come to its wait.
const SETTLED: Duration = Duration::from_micros(20);

/// Measures with the flag in each place; the reply is in host memory, where the CPU looks without crossing the bus.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let samples = session.task.terms.depth.async_samples();
    let replies = session.words[0].1.clone();
    for (location, words) in session.words.clone() {
        let label = format!("async.poll.{location}.latency");
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
            program
                .wait32(&words, FLAG, round, Compare::Geq)
                .write32(&replies, REPLY, round);
            let watched = Watched {
                what: "the flag".to_owned(),
                word: words.part(FLAG, 4)?,
                value: round,
                compare: Compare::Geq,
            };
            let guard = session.dog.watch(vec![watched], session.timeout);
            program.post_to(&session.stream, session.can)?;
            let settled = Instant::now();
            while settled.elapsed() < SETTLED {
                std::hint::spin_loop();
            }
            let begun = Instant::now();
            words.store_u32(FLAG, round)?;
            if !seen(&replies, REPLY, round, session.timeout)? {
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
            None => session.about.spread(&label, Some(4), 0, &times),
            Some(why) => session.about.impossible(&label, Some(4), true, why),
        })?;
    }
    Ok(())
}
