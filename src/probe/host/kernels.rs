//! Kernels on pinned host memory: bandwidth of loads and stores, latency of one load.

use std::time::Duration;

use super::links::allowance;
use super::session::{MIN_BANDWIDTH_SIZE, Session};
use crate::model::figure::host::{KERNEL_LATENCY, KERNEL_LOAD, KERNEL_STORE};
use crate::probe::chase::{LIST, chase, ring};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{LOOK_AT, by_engine, by_host, fill, fill_host};
use crate::probe::lanes::{Lane, Runs, measure};

/// Largest copy of a kernel.
const LARGEST: usize = 256 << 20;

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let bytes = session.largest().min(LARGEST) / 16 * 16;
    if bytes >= MIN_BANDWIDTH_SIZE {
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
    reporter
        .doing_for("a kernel that copies host memory", 40 * budget.time + allowance(bytes * 8))?;
    let host = session.gpu.pinned(bytes)?;
    let [sent, before, back, under] = [(); 4].map(|()| session.seeds.next());
    let rate = |copy: &dyn Fn() -> Result<(), gpu::Error>| {
        let lanes = [Lane::new(&session.stream, copy)];
        measure(&session.gate, &lanes, Runs::of(bytes), budget).map(|measured| measured.all)
    };
    let (stream, memory, about) = (&session.stream, &session.memory, &session.about);
    fill_host(&host, bytes, sent)?;
    fill(&session.witness, memory, bytes, before)?;
    let loads = rate(&|| stream.copy_words(memory, 0, &host, 0, bytes))?;
    let wrong = by_engine(&session.witness, memory, bytes, sent)?;
    let name = KERNEL_LOAD;
    let result = about.bandwidth(name, bytes, bytes, &loads, session.promise(bytes));
    reporter.result(about.checked(result, wrong.map(|wrong| wrong.advice())))?;
    fill_host(&host, bytes, under)?;
    fill(&session.witness, memory, bytes, back)?;
    let stores = rate(&|| stream.copy_words(&host, 0, memory, 0, bytes))?;
    let wrong = by_host(&host, bytes, back)?;
    let name = KERNEL_STORE;
    let result = about.bandwidth(name, bytes, bytes, &stores, session.promise(bytes));
    Ok(reporter.result(about.checked(result, wrong.map(|wrong| wrong.advice())))?)
}

fn latency(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    reporter.doing_for("a kernel that follows a list in host memory", Duration::from_secs(2))?;
    let list = session.gpu.pinned(LIST)?;
    list.write(0, &ring())?;
    let samples = chase(&session.stream, &list, session.budget())?;
    let name = KERNEL_LATENCY;
    Ok(reporter.result(match samples {
        Some(samples) => session.about.latency(name, Some(8), 0, &samples),
        None => {
            let why = format!("the kernel read a wrong list entry. {LOOK_AT}");
            session.about.wrong(name, Some(8), why)
        }
    })?)
}
