//! Latency of the calls of a pin and a mapping.

use std::array;
use std::time::{Duration, Instant};

use gdrcopy::PinFlags;
use gpu::DeviceMemory;

use super::session::Session;
use crate::model::figure::copy::{CALLS, PIN};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::sampling::Sampler;

/// Longest time of the calls together.
const LONGEST: Duration = Duration::from_millis(20);

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    for bytes in &session.task.call_sizes() {
        let budget = session.task.calls();
        reporter.doing_for(
            format!("pin, map, unmap and unpin of {bytes} bytes"),
            session.task.time(budget, LONGEST),
        )?;
        match session
            .gpu
            .allocate(session.task.choices.allocation(), *bytes)
            .map_err(StepError::from)
            .and_then(|memory| time(session, &memory))
        {
            Ok(samples) => {
                for (call, samples) in CALLS.into_iter().zip(&samples) {
                    reporter.result(session.about.spread(call.name, Some(*bytes), 0, samples))?;
                }
            }
            Err(failure) => reporter.result(session.about.impossible(
                PIN.name,
                Some(*bytes),
                false,
                gpu::sentence(&failure),
            ))?,
        }
    }
    Ok(())
}

/// Samples of each call in seconds, in the order of [`CALLS`].
fn time(
    session: &Session<'_>,
    memory: &DeviceMemory,
) -> Result<[Vec<f64>; CALLS.len()], StepError> {
    let mut samples = [const { Vec::new() }; CALLS.len()];
    // Warm-up.
    time_once(session, memory)?;
    let mut sampler = Sampler::new(session.task.calls());
    while sampler.wants_more() {
        let round = time_once(session, memory)?;
        sampler.push(round[0] + round[1]);
        for (samples, sample) in samples.iter_mut().zip(round) {
            samples.push(sample);
        }
    }
    Ok(samples)
}

/// Seconds of each call, in the order of [`CALLS`].
fn time_once(
    session: &Session<'_>,
    memory: &DeviceMemory,
) -> Result<[f64; CALLS.len()], StepError> {
    let mut marks = [Instant::now(); CALLS.len() + 1];
    let pin = session.gdr.pin(memory, 0..memory.len(), PinFlags::default())?;
    marks[1] = Instant::now();
    let mapping = pin.map(session.task.choices.request())?;
    marks[2] = Instant::now();
    pin.info()?;
    marks[3] = Instant::now();
    drop(mapping);
    marks[4] = Instant::now();
    drop(pin);
    marks[5] = Instant::now();
    Ok(array::from_fn(|at| (marks[at + 1] - marks[at]).as_secs_f64()))
}
