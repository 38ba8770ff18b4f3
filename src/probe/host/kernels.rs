//! A kernel that loads from pinned host memory and stores to it: bandwidth, and what one load costs.

use std::time::Duration;

use super::links::allowance;
use super::session::{Session, WORTH};
use crate::probe::chase::{LIST, chase, ring};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{by_engine, by_host, fill, fill_host};
use crate::probe::lanes::{Lane, Runs, measure};

/// What a kernel copies at most.
const LARGEST: usize = 256 << 20;

pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let bytes = session.largest().min(LARGEST) / 16 * 16;
    if bytes >= WORTH {
        bandwidth(session, bytes, reporter)?;
    }
    latency(session, reporter)
}

fn bandwidth(
    session: &Session<'_>,
    bytes: usize,
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let budget = session.budget();
    reporter.doing_for(
        "a kernel that copies host memory",
        40 * budget.time + allowance(bytes * 8),
    )?;
    let host = session.gpu.pinned(bytes)?;
    let [sent, before, back, under] = [(); 4].map(|()| session.seeds.next());
    let (stream, memory, about) = (&session.stream, &session.memory, &session.about);
    fill_host(&host, bytes, sent)?;
    fill(&session.witness, memory, bytes, before)?;
    let load = || stream.copy_words(memory, 0, &host, 0, bytes);
    let loads = measure(
        &session.gate,
        &[Lane::new(stream, load)],
        Runs::of(bytes),
        budget,
    )?
    .all;
    let name = "host.kernel.load.bandwidth";
    let wrong = by_engine(&session.witness, memory, bytes, sent)?;
    reporter.result(match wrong {
        Some(wrong) => about.wrong(
            name,
            Some(bytes),
            format!("{wrong}. {}", super::integrity::LOOK_AT),
        ),
        None => about.bandwidth(name, bytes, bytes, &loads, session.promise(bytes)),
    })?;
    fill_host(&host, bytes, under)?;
    fill(&session.witness, memory, bytes, back)?;
    let store = || stream.copy_words(&host, 0, memory, 0, bytes);
    let stores = measure(
        &session.gate,
        &[Lane::new(stream, store)],
        Runs::of(bytes),
        budget,
    )?
    .all;
    let name = "host.kernel.store.bandwidth";
    let wrong = by_host(&host, bytes, back)?;
    Ok(reporter.result(match wrong {
        Some(wrong) => about.wrong(
            name,
            Some(bytes),
            format!("{wrong}. {}", super::integrity::LOOK_AT),
        ),
        None => about.bandwidth(name, bytes, bytes, &stores, session.promise(bytes)),
    })?)
}

fn latency(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing_for(
        "a kernel that follows a list in host memory",
        Duration::from_secs(2),
    )?;
    let list = session.gpu.pinned(LIST)?;
    list.write(0, &ring())?;
    let samples = chase(&session.stream, &list, session.budget())?;
    let name = "host.kernel.load.latency";
    Ok(reporter.result(match samples {
        Some(samples) => session.about.latency(name, Some(8), 0, &samples),
        None => {
            let why = format!(
                "the list was left where it leads to itself. {}",
                super::integrity::LOOK_AT
            );
            session.about.wrong(name, Some(8), why)
        }
    })?)
}
