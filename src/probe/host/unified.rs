//! Unified addressing, and what a copy from pageable memory promises when its call returns.

use std::time::Instant;

use gpu::Attribute;

use super::links::allowance;
use super::session::Session;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{Wrong, by_kernel, fill, fill_host};

/// Large enough that its transfer takes longer than the call that stages its first piece.
const BYTES: usize = 16 << 20;

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing("unified addressing")?;
    let pinned = session.gpu.pinned(64)?;
    let (host, device) = (
        pinned.as_ptr().as_ptr().addr() as u64,
        pinned.device_address().get(),
    );
    let name = "host.unified-addressing";
    let result = match session.gpu.attribute(Attribute::UNIFIED_ADDRESSING)? {
        Some(1) if host == device => session.about.right(name, None, 0),
        Some(1) => {
            let why = format!(
                "pinned memory at {host:#x} has the address {device:#x} on the GPU, so pointers differ"
            );
            session.about.impossible(name, None, false, why)
        }
        _ => {
            let why =
                "the GPU says that it has none: pointers of host and GPU have to be told apart"
                    .to_owned();
            session.about.impossible(name, None, false, why)
        }
    };
    reporter.result(result)?;
    pageable_source(session, reporter)
}

/// cuMemcpyHtoDAsync of pageable memory: whether the source may be written as soon as the call has returned, and how
/// much of the time the call itself takes.
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
    // Ones, which no pattern is.
    let ones = vec![0xff; bytes.min(1 << 20)];
    for start in (0..bytes).step_by(ones.len().max(1)) {
        host.write(start, &ones[..ones.len().min(bytes - start)])?;
    }
    stream.synchronize()?;
    let whole = begun.elapsed();
    let name = "host.pageable.async";
    let result = match by_kernel(&session.witness, memory, bytes, first)? {
        None => {
            let mut result = about.latency(name, Some(bytes), bytes, &[called.as_secs_f64()]);
            result.reason = Some(format!(
                "the call has taken the source over when it returns, after {:.0} % of the time: the source may be written \
                 again at once",
                100.0 * called.as_secs_f64() / whole.as_secs_f64().max(f64::MIN_POSITIVE)
            ));
            result
        }
        Some(Wrong {
            found: u32::MAX, ..
        }) => {
            let mut result = about.latency(name, Some(bytes), 0, &[called.as_secs_f64()]);
            result.reason = Some(
                "the call returns before it has read the source, which must stay as it is until the stream is synchronised: \
                 the GPU reads pageable memory itself"
                    .to_owned(),
            );
            result
        }
        Some(wrong) => about.wrong(
            name,
            Some(bytes),
            format!("{wrong}; {}", super::integrity::LOOK_AT),
        ),
    };
    Ok(reporter.result(result)?)
}
