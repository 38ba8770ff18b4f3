//! How soon a NIC hears a doorbell that a stream rings: from the CPU's store that lets the stream go on, until the CPU sees what the
//! NIC wrote. What the stream takes to see the store, `async.poll`, is a part of it.

use std::time::{Duration, Instant};

use gdsync::wire::Wqe;
use gdsync::{Program, Watched};
use gpu::Compare;

use super::queues::Queues;
use super::session::{Session, seen};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

const FLAG: usize = 0;
const REPLY: usize = 256;
const SETTLED: Duration = Duration::from_micros(20);

/// Measures one write of 4 bytes after the other.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let Some(hca) = &session.task.hca else {
        return Ok(());
    };
    let samples = session.task.terms.depth.async_samples();
    reporter.doing_for("doorbells that a stream rings", Duration::from_secs(30))?;
    let mut queues = Queues::new(session, hca.open(session)?, 16)?;
    let words = session.words[0].1.clone();
    let region = queues.register_target(&words)?;
    let about = session.about_queues();
    let label = "async.doorbell.latency";
    words.store_u32(FLAG, 0)?;
    words.store_u32(REPLY, 0)?;
    let mut times = Vec::with_capacity(samples as usize);
    for round in 1..=samples {
        let entry = Wqe::write(region.remote(REPLY as u64), &[])
            .inline(&round.to_ne_bytes())
            .signalled();
        let prepared = queues.pair.send.prepare(&entry)?;
        let wait = queues.pair.send_completions.take_wait()?;
        let mut program = Program::new();
        program
            .wait32(&words, FLAG, round, Compare::Geq)
            .ring(&prepared)
            .wait(&wait, false);
        let flag = Watched {
            what: "the flag".to_owned(),
            word: words.part(FLAG, 4)?,
            value: round,
            compare: Compare::Geq,
        };
        let guard = session
            .dog
            .watch(vec![flag, Watched::completion(&wait)], session.timeout);
        program.post_to(&session.stream, session.can)?;
        let settled = Instant::now();
        while settled.elapsed() < SETTLED {
            std::hint::spin_loop();
        }
        let begun = Instant::now();
        words.store_u32(FLAG, round)?;
        let arrived = seen(&words, REPLY, round, session.timeout)?;
        times.push(begun.elapsed().as_secs_f64());
        session.stream.synchronize_within(session.timeout * 2)?;
        let why = match guard.finish().first() {
            Some(released) => released.to_string(),
            // Says why, where the NIC does.
            None => match queues.completed() {
                Ok(_) if arrived => continue,
                Ok(_) => format!("what the NIC was to write did not arrive: number {round}"),
                Err(failure) if failure.is_the_end() => return Err(failure),
                Err(failure) => gpu::sentence(&failure),
            },
        };
        return Ok(reporter.result(about.impossible(label, Some(4), true, why))?);
    }
    Ok(reporter.result(about.spread(label, Some(4), samples as usize * 4, &times))?)
}
