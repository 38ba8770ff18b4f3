//! Every size with every sort of host memory, in both directions and in both at once.

use gpu::HostMemory;

use super::session::{Direction, HostMemoryKind, Session, WORTH, room};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::sampling::time;

/// From this size on both directions are run at once: below, a copy is over before the other has begun.
const BOTH: usize = 1 << 20;

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.expect_more((HostMemoryKind::ALL.len() * session.sizes.len() * 2) as u64);
    HostMemoryKind::ALL
        .into_iter()
        .try_for_each(|memory_kind| of_sort(session, memory_kind, reporter))
}

/// The sort that the NUMA node matters for.
pub fn pinned_alone(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.expect_more(session.sizes.len() as u64 * 2);
    of_sort(session, HostMemoryKind::Pinned, reporter)
}

fn of_sort(
    session: &Session<'_>,
    memory_kind: HostMemoryKind,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let largest = session.largest();
    reporter.doing(format!(
        "{largest} bytes of {} host memory",
        memory_kind.name()
    ))?;
    let host = match memory_kind.take(&session.gpu, room(largest)) {
        Ok(host) => host,
        Err(error) => {
            let failure = StepError::from(error);
            if failure.is_the_end() {
                return Err(failure);
            }
            let (name, why) = (
                format!("host.{}", memory_kind.name()),
                gpu::sentence(&failure),
            );
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
            one_way(session, memory_kind, &host, direction, bytes, reporter)?;
        }
        if bytes >= BOTH {
            both_ways(session, memory_kind, &host, bytes, reporter)?;
        }
    }
    Ok(())
}

fn one_way(
    session: &Session<'_>,
    memory_kind: HostMemoryKind,
    host: &HostMemory,
    direction: Direction,
    bytes: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let budget = session.budget();
    let name = format!("host.{}.{}", memory_kind.name(), direction.name());
    reporter.doing_for(
        format!(
            "{bytes} bytes {} with {} memory",
            direction.name(),
            memory_kind.name()
        ),
        20 * budget.time + allowance(bytes),
    )?;
    let Session {
        stream,
        memory,
        about,
        ..
    } = session;
    let put = || direction.copy(stream, (memory, 0), (host, 0), bytes);
    // What a program pays for one copy: the call, and waiting for its end.
    let samples = time(budget, || put().and_then(|()| stream.synchronize()))?;
    reporter.result(about.latency(&format!("{name}.latency"), Some(bytes), 0, &samples))?;
    if bytes < WORTH {
        return Ok(());
    }
    let name = format!("{name}.bandwidth");
    let promise = session.promise(bytes);
    // CUDA copies pageable memory by itself before it answers, so there is no queue to time: the call is what it costs.
    let (samples, promise) = match memory_kind {
        HostMemoryKind::Pageable => (samples, None),
        _ => {
            let lanes = [Lane::new(stream, put)];
            (
                measure(&session.gate, &lanes, Runs::of(bytes), budget)?.all,
                promise,
            )
        }
    };
    Ok(reporter.result(about.bandwidth(&name, bytes, 0, &samples, promise))?)
}

/// Both directions at once, each with its half of both buffers: the sum, as a share of twice the link.
fn both_ways(
    session: &Session<'_>,
    memory_kind: HostMemoryKind,
    host: &HostMemory,
    bytes: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    if memory_kind == HostMemoryKind::Pageable {
        // Its copies are the CPU's, one after the other.
        return Ok(());
    }
    let budget = session.budget();
    reporter.doing_for(
        format!(
            "{bytes} bytes in both directions at once with {} memory",
            memory_kind.name()
        ),
        20 * budget.time + allowance(bytes),
    )?;
    // Each direction moves half of it, so that both fit into the buffers that are there.
    let half = bytes / 2;
    let (memory, at) = (&session.memory, [0, half]);
    let lane = |direction: Direction, stream, at: usize| {
        Lane::new(stream, move || {
            direction.copy(stream, (memory, at), (host, at), half)
        })
    };
    let lanes = [
        lane(Direction::ToGpu, &session.stream, at[0]),
        lane(Direction::FromGpu, &session.back, at[1]),
    ];
    let measured = measure(&session.gate, &lanes, Runs::of(half), budget)?;
    let name = format!("host.{}.both.bandwidth", memory_kind.name());
    let promise = session.promise(half).map(|mut promise| {
        promise.value *= 2.0;
        promise
    });
    reporter.result(
        session
            .about
            .bandwidth(&name, bytes, 0, &measured.all, promise),
    )?;
    for (direction, samples) in Direction::BOTH.into_iter().zip(&measured.each) {
        let name = format!(
            "host.{}.both.{}.bandwidth",
            memory_kind.name(),
            direction.name()
        );
        reporter.result(session.about.bandwidth(&name, half, 0, samples, None))?;
    }
    Ok(())
}

/// How long so many bytes may take where nothing hangs: a few dozen copies at a tenth of a gigabyte a second.
pub(super) fn allowance(bytes: usize) -> std::time::Duration {
    std::time::Duration::from_nanos(bytes as u64 * 300)
}
