//! Bandwidth and latency of each size with each kind of host memory: each direction, and both at once.

use gpu::HostMemory;

use super::session::{Direction, HostMemoryKind, MIN_BANDWIDTH_SIZE, Session, buffer_size};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::sampling::time;
use crate::probe::verdict::Promise;

/// From this size on both directions are measured together: a smaller copy ends before the other one begins.
const MIN_BOTH_SIZE: usize = 1 << 20;

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.expect_more((HostMemoryKind::ALL.len() * session.sizes.len() * 2) as u64);
    HostMemoryKind::ALL
        .into_iter()
        .try_for_each(|memory_kind| measure_kind(session, memory_kind, reporter))
}

/// Measures pinned memory only, the kind whose bandwidth depends on the NUMA node.
pub fn pinned_only(
    session: &mut Session<'_>,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    reporter.expect_more(session.sizes.len() as u64 * 2);
    measure_kind(session, HostMemoryKind::Pinned, reporter)
}

fn measure_kind(
    session: &Session<'_>,
    memory_kind: HostMemoryKind,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let largest = session.largest();
    reporter.doing(format!("{largest} bytes of {} host memory", memory_kind.name()))?;
    let host = match memory_kind.allocate(&session.gpu, buffer_size(largest)) {
        Ok(host) => host,
        Err(error) => {
            let failure = StepError::from(error);
            if failure.is_fatal() {
                return Err(failure);
            }
            let (name, why) = (memory_kind.allocation(), gpu::sentence(&failure));
            return Ok(reporter.result(session.about.impossible(
                &name,
                Some(largest),
                true,
                why,
            ))?);
        }
    };
    for bytes in session.sizes.clone() {
        for direction in Direction::BOTH {
            one_direction(session, memory_kind, &host, direction, bytes, reporter)?;
        }
        if bytes >= MIN_BOTH_SIZE && memory_kind.is_duplex() {
            both_directions(session, memory_kind, &host, bytes, reporter)?;
        }
    }
    Ok(())
}

fn one_direction(
    session: &Session<'_>,
    memory_kind: HostMemoryKind,
    host: &HostMemory,
    direction: Direction,
    bytes: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let budget = session.budget();
    reporter.doing_for(
        format!("{bytes} bytes {} with {} memory", direction.copied(), memory_kind.name()),
        20 * budget.time + allowance(bytes),
    )?;
    let Session { stream, memory, about, .. } = session;
    let copy = || direction.copy(stream, (memory, 0), (host, 0), bytes);
    // The cost of one copy for a program: the call, and waiting for its end.
    let samples = time(budget, || copy().and_then(|()| stream.synchronize()))?;
    reporter.result(about.latency(&memory_kind.latency(direction), Some(bytes), 0, &samples))?;
    if bytes < MIN_BANDWIDTH_SIZE {
        return Ok(());
    }
    let name = memory_kind.bandwidth(direction);
    let promise = session.promise(bytes);
    // CUDA copies pageable memory before the call returns, so the call itself is the sample.
    let (samples, promise) = match memory_kind {
        HostMemoryKind::Pageable => (samples, None),
        _ => {
            let lanes = [Lane::new(stream, copy)];
            (measure(&session.gate, &lanes, Runs::of(bytes), budget)?.all, promise)
        }
    };
    Ok(reporter.result(about.bandwidth(&name, bytes, 0, &samples, promise))?)
}

/// Both directions together, each in its half of both buffers: the sum, compared with twice the link.
fn both_directions(
    session: &Session<'_>,
    memory_kind: HostMemoryKind,
    host: &HostMemory,
    bytes: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let budget = session.budget();
    reporter.doing_for(
        format!("{bytes} bytes in both directions at once with {} memory", memory_kind.name()),
        20 * budget.time + allowance(bytes),
    )?;
    let half = bytes / 2;
    let (memory, at) = (&session.memory, [0, half]);
    let lane = |direction: Direction, stream, at: usize| {
        Lane::new(stream, move || direction.copy(stream, (memory, at), (host, at), half))
    };
    let lanes = [
        lane(Direction::ToGpu, &session.stream, at[0]),
        lane(Direction::FromGpu, &session.back, at[1]),
    ];
    let measured = measure(&session.gate, &lanes, Runs::of(half), budget)?;
    let name = memory_kind.both();
    let promise = session.promise(half).map(Promise::doubled);
    reporter.result(session.about.bandwidth(&name, bytes, 0, &measured.all, promise))?;
    for (direction, samples) in Direction::BOTH.into_iter().zip(&measured.each) {
        let name = memory_kind.half_of_both(direction);
        reporter.result(session.about.bandwidth(&name, half, 0, samples, None))?;
    }
    Ok(())
}

/// Time for a few dozen copies of `bytes` at 0.1 GB/s.
pub(super) fn allowance(bytes: usize) -> std::time::Duration {
    std::time::Duration::from_nanos(bytes as u64 * 300)
}
