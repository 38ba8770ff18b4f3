//! Copies of one size through the mapping, verified by the copy engine and by a pattern of the GPU.

use std::cell::Cell;

use super::point::Point;
use super::session::{Session, found_wrong, wrong_at};
use gpu::Pattern;

use crate::model::figure::Direction;
use crate::model::figure::copy::MAPPING;
use crate::probe::bytes::compare;
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::UNTOUCHED;
use crate::probe::sampling::{time_and_cpu, time_prepared};

/// Distance between the starts of reads.
const PAGE: usize = 4 << 10;
/// More than the line fill buffers of a CPU.
const MAX_PLACES: usize = 64;

pub fn run(
    session: &mut Session<'_>,
    source: &[u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (bytes, task) = (source.len(), session.task);
    let (start, cold) = (task.choices.offset, task.choices.cold);
    let write = Point {
        about: &session.about,
        way: MAPPING,
        direction: Direction::ToGpu,
        what: "copies through the mapping to the GPU",
        bytes,
    };
    let (stream, memory, mapping) = (&session.stream, &session.memory, &mut session.mapping);
    write.measure(task, reporter, |budget| {
        let mut copy = || Ok::<(), StepError>(mapping.write(start, source)?);
        let timed = if cold {
            time_prepared(
                budget,
                || {
                    stream.fill(memory, start, bytes, UNTOUCHED)?;
                    Ok(stream.synchronize()?)
                },
                &mut copy,
            )?
        } else {
            time_and_cpu(budget, false, &mut copy)?
        };
        Ok((timed, found_wrong(stream, memory, start, source)?))
    })?;
    let read = Point {
        direction: Direction::FromGpu,
        what: "copies through the mapping from the GPU",
        ..write
    };
    read.measure(task, reporter, |budget| {
        let seed = Pattern::new(2 * bytes as u64 + 1001);
        // The pattern has whole words from the buffer's start on.
        let filled = memory.len() / 4 * 4;
        let fill = |at: usize, end: usize| {
            let at = at / 4 * 4;
            let length = (end.next_multiple_of(4)).min(filled) - at;
            stream.fill_pattern(memory, at, length, seed, (at / 4) as u64)?;
            Ok::<(), StepError>(stream.synchronize()?)
        };
        fill(0, filled)?;
        let places = Places::new(start, filled, bytes);
        let mut found = source.to_vec();
        let timed = if cold {
            time_prepared(
                budget,
                || {
                    let at = places.next();
                    fill(at, at + bytes)
                },
                || Ok(mapping.read(places.last(), &mut found)?),
            )?
        } else {
            time_and_cpu(budget, true, || {
                Ok::<(), StepError>(mapping.read(places.next(), &mut found)?)
            })?
        };
        let at = places.last();
        let mut expected = vec![0; at % 4 + bytes];
        seed.fill(&mut expected, (at / 4) as u64);
        let wrong =
            compare(&expected[at % 4..], &found).map(|mismatch| wrong_at(memory, at, &mismatch));
        Ok((timed, wrong))
    })
}

/// Offsets of consecutive reads. A streaming load from the same place may hit the CPU's line fill buffers (0.007 µs, where a round
/// trip over PCI Express takes one microsecond).
struct Places {
    start: usize,
    stride: usize,
    count: usize,
    at: Cell<usize>,
}

impl Places {
    /// For reads of `bytes` from `start` on in a buffer of `buffer` known bytes.
    fn new(start: usize, buffer: usize, bytes: usize) -> Self {
        let stride = bytes.next_multiple_of(PAGE);
        let count = (buffer.saturating_sub(start + bytes) / stride + 1).min(MAX_PLACES);
        Self { start, stride, count, at: Cell::new(0) }
    }

    fn next(&self) -> usize {
        self.at.set((self.at.get() + 1) % self.count);
        self.last()
    }

    /// The last result of `next`.
    fn last(&self) -> usize {
        self.start + self.at.get() * self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stay_within_the_buffer() {
        for (start, buffer, bytes, count) in [
            (0, 69_632, 1, 17),
            (0, 69_632, 65_536, 1),
            (0, 131_072, 65_536, 2),
            (0, 1 << 26, 64, 64),
            // Only whole words are filled.
            (0, 1_048_572, 524_287, 1),
            (4_099, 12_292, 1, 3),
            (4_099, 12_291, 1, 2),
            (65_536, 131_072, 65_536, 1),
        ] {
            let places = Places::new(start, buffer, bytes);
            let seen: std::collections::BTreeSet<usize> =
                (0..1000).map(|_| places.next()).collect();
            assert_eq!(seen.len(), count, "{buffer} {bytes}");
            assert!(seen.iter().all(|at| at + bytes <= buffer && (at - start) % 4096 == 0));
            assert!(seen.contains(&places.last()));
        }
    }
}
