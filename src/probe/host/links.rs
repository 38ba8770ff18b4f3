//! Every size with every sort of host memory, in both directions and in both at once.

use gpu::HostMemory;

use super::session::{Direction, Session, Sort, WORTH, room};
use crate::probe::events::Teller;
use crate::probe::lanes::{Lane, Runs, measure};
use crate::probe::sampling::time;
use crate::probe::trouble::Trouble;

/// From this size on both directions are run at once: below, a copy is over before the other has begun.
const BOTH: usize = 1 << 20;

/// All sorts.
pub fn run(session: &Session<'_>, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    teller.expect_more((Sort::ALL.len() * session.sizes.len() * 2) as u64);
    Sort::ALL
        .into_iter()
        .try_for_each(|sort| of_sort(session, sort, teller))
}

/// The sort that the NUMA node matters for.
pub fn pinned_alone(session: &Session<'_>, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    teller.expect_more(session.sizes.len() as u64 * 2);
    of_sort(session, Sort::Pinned, teller)
}

fn of_sort(session: &Session<'_>, sort: Sort, teller: &mut Teller<'_>) -> Result<(), Trouble> {
    let largest = session.largest();
    teller.doing(format!("{largest} bytes of {} host memory", sort.name()))?;
    let host = match sort.take(&session.gpu, room(largest)) {
        Ok(host) => host,
        Err(error) => {
            let trouble = Trouble::from(error);
            if trouble.is_the_end() {
                return Err(trouble);
            }
            let (name, why) = (format!("host.{}", sort.name()), gpu::sentence(&trouble));
            return Ok(teller.result(session.about.impossible(&name, Some(largest), true, why))?);
        }
    };
    for bytes in session.sizes.clone() {
        for direction in Direction::BOTH {
            one_way(session, sort, &host, direction, bytes, teller)?;
        }
        if bytes >= BOTH {
            both_ways(session, sort, &host, bytes, teller)?;
        }
    }
    Ok(())
}

fn one_way(
    session: &Session<'_>,
    sort: Sort,
    host: &HostMemory,
    direction: Direction,
    bytes: usize,
    teller: &mut Teller<'_>,
) -> Result<(), Trouble> {
    let budget = session.budget();
    let name = format!("host.{}.{}", sort.name(), direction.name());
    teller.doing_for(
        format!("{bytes} bytes {} with {} memory", direction.name(), sort.name()),
        20 * budget.time + allowance(bytes),
    )?;
    let Session {
        stream, memory, about, ..
    } = session;
    let put = || direction.copy(stream, (memory, 0), (host, 0), bytes);
    // What a program pays for one copy: the call, and waiting for its end.
    let samples = time(budget, || put().and_then(|()| stream.synchronize()))?;
    teller.result(about.latency(&format!("{name}.latency"), Some(bytes), 0, &samples))?;
    if bytes < WORTH {
        return Ok(());
    }
    let name = format!("{name}.bandwidth");
    let promise = session.promise(bytes);
    // CUDA copies pageable memory by itself before it answers, so there is no queue to time: the call is what it costs.
    let (samples, promise) = match sort {
        Sort::Pageable => (samples, None),
        _ => {
            let lanes = [Lane::new(stream, put)];
            (measure(&session.gate, &lanes, Runs::of(bytes), budget)?.all, promise)
        }
    };
    Ok(teller.result(about.bandwidth(&name, bytes, 0, &samples, promise))?)
}

/// Both directions at once, each with its half of both buffers: the sum, as a share of twice the link.
fn both_ways(
    session: &Session<'_>,
    sort: Sort,
    host: &HostMemory,
    bytes: usize,
    teller: &mut Teller<'_>,
) -> Result<(), Trouble> {
    if sort == Sort::Pageable {
        // Its copies are the CPU's, one after the other.
        return Ok(());
    }
    let budget = session.budget();
    teller.doing_for(
        format!("{bytes} bytes in both directions at once with {} memory", sort.name()),
        20 * budget.time + allowance(bytes),
    )?;
    // Each direction moves half of it, so that both fit into the buffers that are there.
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
    let name = format!("host.{}.both.bandwidth", sort.name());
    let promise = session.promise(half).map(|mut promise| {
        promise.value *= 2.0;
        promise
    });
    teller.result(session.about.bandwidth(&name, bytes, 0, &measured.all, promise))?;
    for (direction, samples) in Direction::BOTH.into_iter().zip(&measured.each) {
        let name = format!("host.{}.both.{}.bandwidth", sort.name(), direction.name());
        teller.result(session.about.bandwidth(&name, half, 0, samples, None))?;
    }
    Ok(())
}

/// How long so many bytes may take where nothing hangs: a few dozen copies at a tenth of a gigabyte a second.
pub(super) fn allowance(bytes: usize) -> std::time::Duration {
    std::time::Duration::from_nanos(bytes as u64 * 300)
}
