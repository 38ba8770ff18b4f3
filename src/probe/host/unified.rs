//! Unified addressing, and whether a copy from pageable memory has read its source when the call returns.

use std::time::Instant;

use gpu::Attribute;

use super::links::allowance;
use super::session::Session;
use crate::model::figure::host::{PAGEABLE_CALL, UNIFIED_ADDRESSING};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{LOOK_AT, Wrong, by_kernel, fill, fill_host};

/// Large enough that the transfer takes longer than a call that stages only the first part.
const BYTES: usize = 16 << 20;

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing("unified addressing")?;
    let pinned = session.gpu.pinned(64)?;
    let (host, device) = (pinned.as_ptr().as_ptr().addr() as u64, pinned.device_address().get());
    let name = UNIFIED_ADDRESSING;
    let result = match session.gpu.attribute(Attribute::UNIFIED_ADDRESSING)? {
        Some(1) if host == device => session.about.right(name, None, 0),
        Some(1) => {
            let why = format!(
                "pinned memory at {host:#x} has the address {device:#x} on the GPU: host and device pointers differ"
            );
            session.about.impossible(name, None, false, why)
        }
        _ => {
            let why = "the GPU does not support it: host and device pointers must be kept apart"
                .to_owned();
            session.about.impossible(name, None, false, why)
        }
    };
    reporter.result(result)?;
    pageable_source(session, reporter)
}

/// Tests whether the source of cuMemcpyHtoDAsync may be overwritten once the call has returned, and how much of the time the call
/// takes.
fn pageable_source(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let bytes = BYTES.min(session.memory.len()) / 16 * 16;
    reporter.doing_for("a copy from pageable memory", allowance(bytes))?;
    let (first, second) = (session.seeds.next(), session.seeds.next());
    let (stream, memory, about) = (&session.stream, &session.memory, &session.about);
    let host = session.gpu.pageable(bytes)?;
    fill(stream, memory, bytes, second)?;
    fill_host(&host, bytes, first)?;
    let begun = Instant::now();
    stream.upload(memory, 0, &host, 0, bytes)?;
    let called = begun.elapsed();
    // No pattern has a word of all ones.
    let ones = vec![0xff; bytes.min(1 << 20)];
    for start in (0..bytes).step_by(ones.len().max(1)) {
        host.write(start, &ones[..ones.len().min(bytes - start)])?;
    }
    stream.synchronize()?;
    let whole = begun.elapsed();
    let name = PAGEABLE_CALL;
    let result = match by_kernel(&session.witness, memory, bytes, first)? {
        None => {
            let mut result = about.latency(name, Some(bytes), bytes, &[called.as_secs_f64()]);
            result.reason = Some(format!(
                "the call has read the source when it returns, after {:.0} % of the time: the source may be overwritten \
                 at once",
                100.0 * called.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE)
            ));
            result
        }
        Some(Wrong { found: u32::MAX, .. }) => {
            let mut result = about.latency(name, Some(bytes), 0, &[called.as_secs_f64()]);
            result.reason = Some(
                "the call returns before it has read the source, which must not change until the stream is synchronised: \
                 the GPU reads pageable memory itself"
                    .to_owned(),
            );
            result
        }
        Some(wrong) => about.wrong(name, Some(bytes), format!("{wrong}; {LOOK_AT}")),
    };
    Ok(reporter.result(result)?)
}
