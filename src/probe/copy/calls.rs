//! Latency of the calls of a pin and a mapping.

use std::time::{Duration, Instant};

use gdrcopy::PinFlags;
use gpu::DeviceMemory;

use super::session::Session;
use crate::model::figure::FigureKind;
use crate::model::figure::copy::{CALLS, INFO, MAP, PIN, UNMAP, UNPIN};
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
                for (call, samples) in samples {
                    reporter.result(session.about.spread(call.name, Some(*bytes), 0, &samples))?;
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

/// Samples of each call in seconds.
fn time(
    session: &Session<'_>,
    memory: &DeviceMemory,
) -> Result<[(FigureKind, Vec<f64>); CALLS.len()], StepError> {
    // Warm-up.
    let mut samples = time_once(session, memory)?.map(|(call, _)| (call, Vec::new()));
    let mut sampler = Sampler::new(session.task.calls());
    while sampler.wants_more() {
        let round = time_once(session, memory)?;
        let mapped = round.iter().filter(|(call, _)| [PIN, MAP].contains(call));
        sampler.push(mapped.map(|(_, seconds)| seconds).sum());
        for ((_, samples), (_, seconds)) in samples.iter_mut().zip(round) {
            samples.push(seconds);
        }
    }
    Ok(samples)
}

/// Seconds of each call.
fn time_once(
    session: &Session<'_>,
    memory: &DeviceMemory,
) -> Result<[(FigureKind, f64); CALLS.len()], StepError> {
    let mut last = Instant::now();
    let mut since = |call| {
        let now = Instant::now();
        (call, (now - std::mem::replace(&mut last, now)).as_secs_f64())
    };
    let pin = session.gdr.pin(memory, 0..memory.len(), PinFlags::default())?;
    let pinned = since(PIN);
    let mapping = pin.map(session.task.choices.request())?;
    let mapped = since(MAP);
    pin.info()?;
    let asked = since(INFO);
    drop(mapping);
    let unmapped = since(UNMAP);
    drop(pin);
    Ok([pinned, mapped, asked, unmapped, since(UNPIN)])
}
