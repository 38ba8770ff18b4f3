//! Each size in both directions: through the mapping, and by cuMemcpy with pinned and pageable memory.

use gpu::{DeviceMemory, HostMemory, Kind, Pattern, Stream};

use super::session::{Session, allowance, device_differs, pattern, wrong_at};
use crate::model::ProbeResult;
use crate::probe::bytes::compare;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::sampling::{Budget, Timed, time_and_cpu};
use crate::probe::verdict::{Promise, Subject};

/// From this size on the bandwidth is reported.
const MIN_BANDWIDTH_SIZE: usize = 4 << 10;
/// From this size on the link limits the bandwidth; below, the start of a copy does.
pub(super) const LIMITED_BY_LINK: usize = 16 << 20;
/// Distance between the starts of reads.
const PAGE: usize = 4 << 10;
/// More than the line fill buffers of a CPU.
const MAX_PLACES: usize = 64;

pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let sizes = session.sizes.clone();
    let copies = if session.task.sweep_only { 2 } else { 6 };
    reporter.expect_more((sizes.len() * copies) as u64);
    let pinned = match session.task.sweep_only {
        true => None,
        false => pinned(session, sizes.last().copied().unwrap_or(1), reporter)?,
    };
    for bytes in sizes {
        // A new pattern for each size, so that data of an earlier size is wrong.
        let source = pattern(2 * bytes as u64 + 1000, bytes);
        mapped(session, &source, reporter)?;
        if !session.task.sweep_only {
            if let Some(pinned) = &pinned {
                engine_pinned(session, pinned, &source, reporter)?;
            }
            engine_pageable(session, &source, reporter)?;
        }
    }
    Ok(())
}

/// Pinned memory for the comparison; without it the rest is still measured.
fn pinned(
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
                "cuda.pinned",
                Some(bytes),
                required,
                why,
            ))?;
            Ok(None)
        }
    }
}

/// One size in one direction.
struct Point<'a> {
    about: &'a Subject,
    name: &'a str,
    /// Completes the phrase "waiting for …".
    what: &'a str,
    bytes: usize,
    budget: Budget,
    promise: Option<Promise>,
}

impl Point<'_> {
    /// Takes samples, and reports latency and bandwidth, or wrong bytes.
    fn measure(
        &self,
        reporter: &mut Reporter<'_>,
        run: impl FnOnce(Budget) -> Result<(Timed, Option<String>), StepError>,
    ) -> Result<(), StepError> {
        let Self {
            about, name, bytes, ..
        } = *self;
        let step = format!("{} ({bytes} bytes)", self.what);
        reporter.doing_for(step, 10 * self.budget.time + allowance(bytes))?;
        let (timed, wrong) = run(self.budget)?;
        let latency = format!("{name}.latency");
        if let Some(wrong) = wrong {
            return Ok(reporter.result(about.wrong(&latency, Some(bytes), wrong))?);
        }
        reporter.result(ProbeResult {
            cpu: timed.cpu.map(|seconds| seconds * 1e6),
            ..about.latency(&latency, Some(bytes), bytes, &timed.seconds)
        })?;
        if bytes >= MIN_BANDWIDTH_SIZE {
            let promise = self.promise.filter(|_| bytes >= LIMITED_BY_LINK);
            reporter.result(about.bandwidth(
                &format!("{name}.bandwidth"),
                bytes,
                0,
                &timed.seconds,
                promise,
            ))?;
        }
        Ok(())
    }
}

fn promise(session: &Session<'_>, share: Option<f64>) -> Option<Promise> {
    let link = session.task.target.link?;
    Some(Promise::of_link(link, share))
}

fn mapped(
    session: &mut Session<'_>,
    source: &[u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let bytes = source.len();
    let write = Point {
        about: &session.about,
        name: "copy.write",
        what: "copies through the mapping to the GPU",
        bytes,
        budget: session.task.terms.depth.point(),
        promise: promise(session, session.task.terms.shares.mapping),
    };
    let (stream, memory, mapping) = (&session.stream, &session.memory, &mut session.mapping);
    write.measure(reporter, |budget| {
        let timed = time_and_cpu(budget, false, || mapping.write(0, source))?;
        Ok((timed, found_wrong(stream, memory, source)?))
    })?;
    let read = Point {
        name: "copy.read",
        what: "copies through the mapping from the GPU",
        promise: write.promise.map(|promise| Promise {
            share: None,
            ..promise
        }),
        ..write
    };
    read.measure(reporter, |budget| {
        let seed = Pattern::new(2 * bytes as u64 + 1001);
        let filled = memory.len() / 4 * 4;
        stream.fill_pattern(memory, 0, filled, seed, 0)?;
        stream.synchronize()?;
        let mut places = Places::new(filled, bytes);
        let mut found = source.to_vec();
        let timed = time_and_cpu(budget, true, || mapping.read(places.next(), &mut found))?;
        let mut expected = vec![0; bytes];
        seed.fill(&mut expected, (places.last() / 4) as u64);
        let wrong =
            compare(&expected, &found).map(|mismatch| wrong_at(memory, places.last(), &mismatch));
        Ok((timed, wrong))
    })
}

/// The wrong bytes at the start of GPU memory, read by the copy engine.
fn found_wrong(
    stream: &Stream,
    memory: &DeviceMemory,
    expected: &[u8],
) -> Result<Option<String>, StepError> {
    let mismatch = device_differs(stream, memory, 0, expected)?;
    Ok(mismatch.map(|mismatch| wrong_at(memory, 0, &mismatch)))
}

/// Offsets of consecutive reads. A streaming load from the same place may hit the CPU's line fill buffers (0.007 µs, where a round
/// trip over PCI Express takes one microsecond).
struct Places {
    stride: usize,
    count: usize,
    at: usize,
}

impl Places {
    /// For reads of `bytes` in a buffer of `buffer` known bytes.
    fn new(buffer: usize, bytes: usize) -> Self {
        let stride = bytes.next_multiple_of(PAGE);
        let count = (buffer.saturating_sub(bytes) / stride + 1).min(MAX_PLACES);
        Self {
            stride,
            count,
            at: 0,
        }
    }

    fn next(&mut self) -> usize {
        self.at = (self.at + 1) % self.count;
        self.last()
    }

    /// The last result of `next`.
    fn last(&self) -> usize {
        self.at * self.stride
    }
}

fn engine_pinned(
    session: &Session<'_>,
    host: &HostMemory,
    source: &[u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let bytes = source.len();
    let (stream, memory) = (&session.stream, &session.memory);
    let write = Point {
        about: &session.about_cuda,
        name: "cuda.pinned.write",
        what: "cuMemcpy from pinned memory",
        bytes,
        budget: session.task.terms.depth.point(),
        promise: promise(session, session.task.terms.shares.pci_express),
    };
    write.measure(reporter, |budget| {
        host.write(0, source)?;
        let timed = time_and_cpu(budget, false, || {
            stream.upload(memory, 0, host, 0, bytes)?;
            stream.synchronize()
        })?;
        Ok((timed, found_wrong(stream, memory, source)?))
    })?;
    let read = Point {
        name: "cuda.pinned.read",
        what: "cuMemcpy to pinned memory",
        ..write
    };
    read.measure(reporter, |budget| {
        let inverse: Vec<u8> = source.iter().map(|byte| !byte).collect();
        stream.write(memory, 0, &inverse)?;
        let timed = time_and_cpu(budget, false, || {
            stream.download(host, 0, memory, 0, bytes)?;
            stream.synchronize()
        })?;
        let mut found = source.to_vec();
        host.read(0, &mut found)?;
        let wrong = compare(&inverse, &found).map(|mismatch| wrong_at(memory, 0, &mismatch));
        Ok((timed, wrong))
    })
}

fn engine_pageable(
    session: &Session<'_>,
    source: &[u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let bytes = source.len();
    let (stream, memory) = (&session.stream, &session.memory);
    let write = Point {
        about: &session.about_cuda,
        name: "cuda.pageable.write",
        what: "cuMemcpy from pageable memory",
        bytes,
        budget: session.task.terms.depth.point(),
        promise: None,
    };
    write.measure(reporter, |budget| {
        let timed = time_and_cpu(budget, false, || stream.write(memory, 0, source))?;
        Ok((timed, found_wrong(stream, memory, source)?))
    })?;
    let read = Point {
        name: "cuda.pageable.read",
        what: "cuMemcpy to pageable memory",
        ..write
    };
    read.measure(reporter, |budget| {
        let mut found: Vec<u8> = source.iter().map(|byte| !byte).collect();
        let timed = time_and_cpu(budget, false, || stream.read(memory, 0, &mut found))?;
        let wrong = compare(source, &found).map(|mismatch| wrong_at(memory, 0, &mismatch));
        Ok((timed, wrong))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stay_within_the_buffer() {
        for (buffer, bytes, count) in [
            (69_632, 1, 17),
            (69_632, 65_536, 1),
            (131_072, 65_536, 2),
            (1 << 26, 64, 64),
            // Only whole words are filled.
            (1_048_572, 524_287, 1),
        ] {
            let mut places = Places::new(buffer, bytes);
            let seen: std::collections::BTreeSet<usize> =
                (0..1000).map(|_| places.next()).collect();
            assert_eq!(seen.len(), count, "{buffer} {bytes}");
            assert!(seen.iter().all(|at| at + bytes <= buffer && at % 4096 == 0));
            assert_eq!(places.last(), places.at * places.stride);
        }
    }
}
