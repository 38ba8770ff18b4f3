//! Copies of one size by cuMemcpy, verified along the way back.

use gpu::{HostMemory, Kind};

use super::point::Point;
use super::session::{Session, found_wrong, wrong_at};
use crate::model::figure::Direction;
use crate::model::figure::copy::{PAGEABLE, PINNED};
use crate::probe::bytes::{compare, inverted};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::sampling::time_and_cpu;

/// All ways by cuMemcpy.
pub fn run(
    session: &Session<'_>,
    host: Option<&HostMemory>,
    source: &[u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    if let Some(host) = host {
        pinned(session, host, source, reporter)?;
    }
    pageable(session, source, reporter)
}

/// Pinned memory for the comparison; without it the rest is still measured.
pub fn host_memory(
    session: &Session<'_>,
    bytes: usize,
    reporter: &mut Reporter<'_>,
) -> Result<Option<HostMemory>, StepError> {
    reporter.doing("pinned host memory")?;
    match session.gpu.pinned(bytes) {
        Ok(memory) => Ok(Some(memory)),
        Err(error) => {
            let required = error.kind() == Kind::Broken;
            let why = gpu::sentence(&error);
            reporter.result(session.about_cuda.impossible(
                PINNED.name,
                Some(bytes),
                required,
                why,
            ))?;
            Ok(None)
        }
    }
}

/// With pinned memory.
fn pinned(
    session: &Session<'_>,
    host: &HostMemory,
    source: &[u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (bytes, task) = (source.len(), session.task);
    let start = task.choices.offset;
    let (stream, memory) = (&session.stream, &session.memory);
    let write = Point {
        about: &session.about_cuda,
        way: PINNED,
        direction: Direction::ToGpu,
        what: "cuMemcpy from pinned memory",
        bytes,
    };
    write.measure(task, reporter, |budget| {
        host.write(0, source)?;
        let timed = time_and_cpu(budget, false, || {
            stream.upload(memory, start, host, 0, bytes)?;
            stream.synchronize()
        })?;
        Ok((timed, found_wrong(stream, memory, start, source)?))
    })?;
    let read = Point { direction: Direction::FromGpu, what: "cuMemcpy to pinned memory", ..write };
    read.measure(task, reporter, |budget| {
        let inverse = inverted(source);
        stream.write(memory, start, &inverse)?;
        let timed = time_and_cpu(budget, false, || {
            stream.download(host, 0, memory, start, bytes)?;
            stream.synchronize()
        })?;
        let mut found = source.to_vec();
        host.read(0, &mut found)?;
        let wrong = compare(&inverse, &found).map(|mismatch| wrong_at(memory, start, &mismatch));
        Ok((timed, wrong))
    })
}

/// With pageable memory.
fn pageable(
    session: &Session<'_>,
    source: &[u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (bytes, task) = (source.len(), session.task);
    let start = task.choices.offset;
    let (stream, memory) = (&session.stream, &session.memory);
    let write = Point {
        about: &session.about_cuda,
        way: PAGEABLE,
        direction: Direction::ToGpu,
        what: "cuMemcpy from pageable memory",
        bytes,
    };
    write.measure(task, reporter, |budget| {
        let timed = time_and_cpu(budget, false, || stream.write(memory, start, source))?;
        Ok((timed, found_wrong(stream, memory, start, source)?))
    })?;
    let read =
        Point { direction: Direction::FromGpu, what: "cuMemcpy to pageable memory", ..write };
    read.measure(task, reporter, |budget| {
        let mut found = inverted(source);
        let timed = time_and_cpu(budget, false, || stream.read(memory, start, &mut found))?;
        let wrong = compare(source, &found).map(|mismatch| wrong_at(memory, start, &mismatch));
        Ok((timed, wrong))
    })
}
