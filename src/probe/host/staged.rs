//! The memory paths through a second buffer of the host: without GPUDirect v1, and in chunks as MPI libraries go.
//!
//! Without GPUDirect v1 the driver of the GPU and that of the network each have pinned buffers of their own, so that a message
//! is copied by the CPU from one to the other: two host buffers, one copy more. A CUDA-aware MPI cuts the message into chunks
//! (MV2_CUDA_BLOCK_SIZE of MVAPICH2, btl_smcuda_cuda_max_send_size of Open MPI) and copies one while the next is on its way.

use gpu::{Error, Event, HostMemory};

use super::integrity::LOOK_AT;
use super::links::allowance;
use super::session::{Direction, Session, WORTH};
use crate::model::{BYTES, ProbeResult};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{by_kernel, by_slice, fill};
use crate::probe::sampling::time;

/// What is in a buffer of the host before a message arrives in it: no pattern repeats a word.
const UNTOUCHED: u8 = 0xa5;
/// Chunks that are on their way at once.
const SLOTS: usize = 4;
/// A whole message is copied twice up to this size.
const LARGEST: usize = 256 << 20;

/// Measures both memory paths.
pub fn run(session: &Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let within = |size: &usize| (WORTH..=LARGEST).contains(size);
    let sizes: Vec<usize> = session.sizes.iter().copied().filter(within).collect();
    let message = session.largest().min(session.task.terms.depth.message()) / 16 * 16;
    let mut chunks = session.task.terms.depth.chunks().to_vec();
    chunks.retain(|chunk| *chunk <= message);
    reporter.expect_more(((sizes.len() + chunks.len() * 2) * 2) as u64);
    if let Some(largest) = sizes.last() {
        reporter.doing(format!("two host buffers of {largest} bytes"))?;
        let own = session.gpu.pinned(*largest)?;
        let mut other = vec![0; *largest];
        for bytes in sizes {
            for direction in Direction::BOTH {
                extra_copy(session, direction, &own, &mut other[..bytes], reporter)?;
            }
        }
    }
    let Some(largest) = chunks.last() else {
        return Ok(());
    };
    reporter.doing(format!("a host buffer of {message} bytes, and chunks"))?;
    let slots = (0..SLOTS).map(|_| session.gpu.pinned(*largest));
    let slots = slots.collect::<Result<Vec<_>, _>>()?;
    let arrived = (0..SLOTS).map(|_| session.gpu.event());
    let arrived = arrived.collect::<Result<Vec<_>, _>>()?;
    let mut user = vec![0; message];
    for direction in Direction::BOTH {
        let mut found = Vec::new();
        for depth in [1, SLOTS] {
            for chunk in chunks.iter().copied() {
                let ring = Ring {
                    slots: &slots[..depth],
                    arrived: &arrived[..depth],
                    chunk,
                };
                found.push(staged(session, direction, &ring, &mut user, reporter)?);
            }
        }
        let best = best(&found);
        for result in found {
            reporter.result(result)?;
        }
        if let Some(best) = best {
            let name = format!("host.staged.{}.best-chunk", direction.name());
            reporter.result(session.about.figure(&name, BYTES, Some(best as f64)))?;
        }
    }
    Ok(())
}

/// The chunk of the highest bandwidth among the overlapped ones.
fn best(results: &[ProbeResult]) -> Option<u64> {
    let overlapped = results
        .iter()
        .filter(|result| result.name.contains(".overlapped."));
    let measured = overlapped.filter_map(|result| Some((result.chunk?, result.median?)));
    measured
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(chunk, _)| chunk)
}

/// The whole message by the copy engine, and by the CPU.
fn extra_copy(
    session: &Session<'_>,
    direction: Direction,
    own: &HostMemory,
    other: &mut [u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (budget, bytes) = (session.budget(), other.len());
    let name = format!("host.extra-copy.{}.bandwidth", direction.name());
    reporter.doing_for(
        format!("{bytes} bytes {} by two host buffers", direction.name()),
        20 * budget.time + allowance(bytes),
    )?;
    // Kernels write and compare whole words.
    let words = bytes / 4 * 4;
    let (sent, before) = (session.seeds.next(), session.seeds.next());
    let (stream, memory) = (&session.stream, &session.memory);
    let (samples, wrong) = match direction {
        Direction::ToGpu => {
            sent.fill(other, 0);
            fill(&session.witness, memory, words, before)?;
            let samples = time(budget, || {
                own.write(0, other)?;
                stream.upload(memory, 0, own, 0, bytes)?;
                stream.synchronize()
            })?;
            (samples, by_kernel(&session.witness, memory, words, sent)?)
        }
        Direction::FromGpu => {
            other.fill(UNTOUCHED);
            fill(&session.witness, memory, words, sent)?;
            let samples = time(budget, || {
                stream.download(own, 0, memory, 0, bytes)?;
                stream.synchronize()?;
                own.read(0, other)
            })?;
            (samples, by_slice(&other[..words], sent)?)
        }
    };
    let about = &session.about;
    Ok(reporter.result(match wrong {
        None => about.bandwidth(&name, bytes, words, &samples, None),
        Some(wrong) => about.wrong(&name, Some(bytes), format!("{wrong}. {LOOK_AT}")),
    })?)
}

/// Pinned buffers that chunks go through in turn: one for a copy after the other, several so that they overlap.
struct Ring<'a> {
    slots: &'a [HostMemory],
    /// When the copy engine is done with each.
    arrived: &'a [Event],
    chunk: usize,
}

impl Ring<'_> {
    /// A message from the GPU into `user`.
    fn bring(&self, session: &Session<'_>, user: &mut [u8]) -> Result<(), Error> {
        let (stream, memory) = (&session.stream, &session.memory);
        let bytes = user.len();
        let put = |number: usize| {
            let (start, slot) = (number * self.chunk, number % self.slots.len());
            if start >= bytes {
                return Ok(());
            }
            stream.download(
                &self.slots[slot],
                0,
                memory,
                start,
                self.chunk.min(bytes - start),
            )?;
            stream.record(&self.arrived[slot])
        };
        (0..self.slots.len()).try_for_each(put)?;
        for (number, piece) in user.chunks_mut(self.chunk).enumerate() {
            let slot = number % self.slots.len();
            self.arrived[slot].synchronize()?;
            self.slots[slot].read(0, piece)?;
            put(number + self.slots.len())?;
        }
        Ok(())
    }

    /// A message out of `user` to the GPU.
    fn send(&self, session: &Session<'_>, user: &[u8]) -> Result<(), Error> {
        for (number, piece) in user.chunks(self.chunk).enumerate() {
            let slot = number % self.slots.len();
            if number >= self.slots.len() {
                self.arrived[slot].synchronize()?;
            }
            self.slots[slot].write(0, piece)?;
            let start = number * self.chunk;
            session
                .stream
                .upload(&session.memory, start, &self.slots[slot], 0, piece.len())?;
            session.stream.record(&self.arrived[slot])?;
        }
        session.stream.synchronize()
    }
}

fn staged(
    session: &Session<'_>,
    direction: Direction,
    ring: &Ring<'_>,
    user: &mut [u8],
    reporter: &mut Reporter<'_>,
) -> Result<ProbeResult, StepError> {
    let (budget, bytes) = (session.budget(), user.len());
    let mode = if ring.slots.len() == 1 {
        "serial"
    } else {
        "overlapped"
    };
    let name = format!("host.staged.{}.{mode}.bandwidth", direction.name());
    reporter.doing_for(
        format!(
            "{bytes} bytes {} in chunks of {}, {mode}",
            direction.name(),
            ring.chunk
        ),
        20 * budget.time + allowance(bytes),
    )?;
    let (sent, before) = (session.seeds.next(), session.seeds.next());
    let (samples, wrong) = match direction {
        Direction::ToGpu => {
            sent.fill(user, 0);
            fill(&session.witness, &session.memory, bytes, before)?;
            let samples = time(budget, || ring.send(session, user))?;
            (
                samples,
                by_kernel(&session.witness, &session.memory, bytes, sent)?,
            )
        }
        Direction::FromGpu => {
            user.fill(UNTOUCHED);
            fill(&session.witness, &session.memory, bytes, sent)?;
            let samples = time(budget, || ring.bring(session, user))?;
            (samples, by_slice(user, sent)?)
        }
    };
    let result = match wrong {
        None => session.about.bandwidth(&name, bytes, bytes, &samples, None),
        Some(wrong) => session
            .about
            .wrong(&name, Some(bytes), format!("{wrong}. {LOOK_AT}")),
    };
    Ok(ProbeResult {
        chunk: Some(ring.chunk as u64),
        ..result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::verdict::Subject;

    #[test]
    fn the_best_chunk_is_that_of_the_fastest_pipeline() {
        let about = Subject {
            subject: "GPU0".to_owned(),
            backend: "cuda".to_owned(),
            numa: None,
        };
        let result = |mode: &str, chunk, seconds: f64| ProbeResult {
            chunk: Some(chunk),
            ..about.bandwidth(
                &format!("host.staged.d2h.{mode}.bandwidth"),
                1 << 20,
                0,
                &[seconds],
                None,
            )
        };
        let results = [
            result("serial", 1, 1e-6),
            result("overlapped", 2, 3e-6),
            result("overlapped", 3, 2e-6),
            result("overlapped", 4, 4e-6),
        ];
        assert_eq!(best(&results), Some(3));
        assert_eq!(best(&results[..1]), None);
    }
}
