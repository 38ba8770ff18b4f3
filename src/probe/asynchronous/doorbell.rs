//! Latency of a doorbell that a stream rings: from the store of the CPU that releases the stream, to the word that the NIC writes.
//! It contains the latency of `async.poll`.

use std::time::{Duration, Instant};

use gdsync::wire::Wqe;
use gdsync::{Program, Watched};
use gpu::Compare;

use super::poll::{FLAG, REPLY, SETTLE};
use super::queues::Queues;
use super::session::{Session, pause, wait_for_word, watched};
use super::settings::Transport;
use crate::model::figure::asynchronous::DOORBELL;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;

/// Measures consecutive RDMA WRITEs of 4 bytes.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let Some(hca) = &session.task.hca else {
        return Ok(());
    };
    let samples = session.task.terms.depth.async_samples();
    reporter.doing_for("doorbells that a stream rings", Duration::from_secs(30))?;
    let mut queues = Queues::new(session, hca.open(session)?, 16, Transport::Rc)?;
    let words = session.words[0].1.clone();
    let region = queues.register_target(&words)?;
    let about = session.about_queues();
    let label = DOORBELL.name;
    words.store_u32(FLAG, 0)?;
    words.store_u32(REPLY, 0)?;
    let mut times = Vec::with_capacity(samples as usize);
    for round in 1..=samples {
        let wqe =
            Wqe::write(region.remote(REPLY as u64), &[]).inline(&round.to_ne_bytes()).signalled();
        let prepared = queues.pair.send.prepare(&wqe)?;
        let wait = queues.pair.send_completions.take_wait()?;
        let mut program = Program::new();
        program.wait32(&words, FLAG, round, Compare::Geq).ring(&prepared).wait(&wait, false);
        let flag = watched("the flag", &words, FLAG, round, Compare::Geq)?;
        let guard = session.watchdog.watch(vec![flag, Watched::completion(&wait)], session.timeout);
        program.post_to(&session.stream, session.capabilities)?;
        pause(SETTLE);
        let begun = Instant::now();
        words.store_u32(FLAG, round)?;
        let arrived = wait_for_word(&words, REPLY, round, session.timeout)?;
        times.push(begun.elapsed().as_secs_f64());
        session.stream.synchronize_within(session.timeout * 2)?;
        let why = match guard.finish().first() {
            Some(released) => released.to_string(),
            // A completion with an error gives the reason.
            None => match queues.completed() {
                Ok(_) if arrived => continue,
                Ok(_) => format!("the NIC's write number {round} did not arrive"),
                Err(failure) if failure.is_fatal() => return Err(failure),
                Err(failure) => gpu::sentence(&failure),
            },
        };
        return Ok(reporter.result(about.impossible(label, Some(4), true, why))?);
    }
    Ok(reporter.result(about.spread(label, Some(4), samples as usize * 4, &times))?)
}
