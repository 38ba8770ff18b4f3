//! Copies through a second host buffer, without GPUDirect v1 and in chunks as MPI libraries do.
//!
//! Without GPUDirect v1 the GPU driver and the network driver have separate pinned buffers, and the CPU copies each message from one
//! to the other. A CUDA-aware MPI splits the message into chunks (MV2_CUDA_BLOCK_SIZE of MVAPICH2, btl_smcuda_cuda_max_send_size of
//! Open MPI) and copies one while the next is in flight.

use gpu::{Error, Event, HostMemory};

use super::links::allowance;
use super::session::{Direction, MIN_BANDWIDTH_SIZE, Session};
use crate::model::figure::host::{self, Staging};
use crate::model::{BYTES, ProbeResult};
use crate::probe::events::Reporter;
use crate::probe::failure::StepError;
use crate::probe::integrity::{UNTOUCHED, by_kernel, by_slice, fill};
use crate::probe::sampling::time;

/// Chunks in flight.
const SLOTS: usize = 4;
/// Largest message copied as a whole.
const LARGEST: usize = 256 << 20;

/// Measures whole and chunked messages.
pub fn run(session: &mut Session<'_>, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
    let within = |size: &usize| (MIN_BANDWIDTH_SIZE..=LARGEST).contains(size);
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
    let copied = (0..SLOTS).map(|_| session.gpu.event());
    let copied = copied.collect::<Result<Vec<_>, _>>()?;
    let mut user = vec![0; message];
    for direction in Direction::BOTH {
        let mut found = Vec::new();
        for depth in [1, SLOTS] {
            for chunk in chunks.iter().copied() {
                let ring = Ring { slots: &slots[..depth], copied: &copied[..depth], chunk };
                found.push(staged(session, direction, &ring, &mut user, reporter)?);
            }
        }
        let best = best(&found, direction);
        for result in found {
            reporter.result(result)?;
        }
        if let Some(best) = best {
            let name = host::best_chunk(direction);
            reporter.result(session.about.figure(&name, BYTES, Some(best as f64)))?;
        }
    }
    Ok(())
}

/// The overlapped chunk size with the highest bandwidth.
fn best(results: &[ProbeResult], direction: Direction) -> Option<u64> {
    let name = Staging::Overlapped.bandwidth(direction);
    let overlapped = results.iter().filter(|result| result.name == name);
    let measured = overlapped.filter_map(|result| Some((result.chunk?, result.median?)));
    measured.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(chunk, _)| chunk)
}

/// Copies the whole message with the copy engine, and again with the CPU.
fn extra_copy(
    session: &Session<'_>,
    direction: Direction,
    own: &HostMemory,
    other: &mut [u8],
    reporter: &mut Reporter<'_>,
) -> Result<(), StepError> {
    let (budget, bytes) = (session.budget(), other.len());
    let name = host::extra_copy(direction);
    reporter.doing_for(
        format!("{bytes} bytes {} by two host buffers", direction.copied()),
        20 * budget.time + allowance(bytes),
    )?;
    // Kernels fill and compare whole words.
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
    let result = about.bandwidth(&name, bytes, words, &samples, None);
    Ok(reporter.result(about.checked(result, wrong.map(|wrong| wrong.advice())))?)
}

/// Pinned buffers for chunks: one for serial copies, several for overlapped ones.
struct Ring<'a> {
    slots: &'a [HostMemory],
    /// The end of each buffer's copy.
    copied: &'a [Event],
    chunk: usize,
}

impl Ring<'_> {
    /// Copies a message from the GPU into `user`.
    fn receive(&self, session: &Session<'_>, user: &mut [u8]) -> Result<(), Error> {
        let (stream, memory) = (&session.stream, &session.memory);
        let bytes = user.len();
        let queue = |number: usize| {
            let (start, slot) = (number * self.chunk, number % self.slots.len());
            if start >= bytes {
                return Ok(());
            }
            stream.download(&self.slots[slot], 0, memory, start, self.chunk.min(bytes - start))?;
            stream.record(&self.copied[slot])
        };
        (0..self.slots.len()).try_for_each(queue)?;
        for (number, chunk) in user.chunks_mut(self.chunk).enumerate() {
            let slot = number % self.slots.len();
            self.copied[slot].synchronize()?;
            self.slots[slot].read(0, chunk)?;
            queue(number + self.slots.len())?;
        }
        Ok(())
    }

    /// Copies a message from `user` to the GPU.
    fn send(&self, session: &Session<'_>, user: &[u8]) -> Result<(), Error> {
        for (number, chunk) in user.chunks(self.chunk).enumerate() {
            let slot = number % self.slots.len();
            if number >= self.slots.len() {
                self.copied[slot].synchronize()?;
            }
            self.slots[slot].write(0, chunk)?;
            let start = number * self.chunk;
            session.stream.upload(&session.memory, start, &self.slots[slot], 0, chunk.len())?;
            session.stream.record(&self.copied[slot])?;
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
    let mode = if ring.slots.len() == 1 { Staging::Serial } else { Staging::Overlapped };
    let name = mode.bandwidth(direction);
    reporter.doing_for(
        format!(
            "{bytes} bytes {} in chunks of {}, {}",
            direction.copied(),
            ring.chunk,
            mode.name()
        ),
        20 * budget.time + allowance(bytes),
    )?;
    let (sent, before) = (session.seeds.next(), session.seeds.next());
    let (samples, wrong) = match direction {
        Direction::ToGpu => {
            sent.fill(user, 0);
            fill(&session.witness, &session.memory, bytes, before)?;
            let samples = time(budget, || ring.send(session, user))?;
            (samples, by_kernel(&session.witness, &session.memory, bytes, sent)?)
        }
        Direction::FromGpu => {
            user.fill(UNTOUCHED);
            fill(&session.witness, &session.memory, bytes, sent)?;
            let samples = time(budget, || ring.receive(session, user))?;
            (samples, by_slice(user, sent)?)
        }
    };
    let about = &session.about;
    let result = about.bandwidth(&name, bytes, bytes, &samples, None);
    Ok(ProbeResult {
        chunk: Some(ring.chunk as u64),
        ..about.checked(result, wrong.map(|wrong| wrong.advice()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::verdict::Subject;

    #[test]
    fn best_chunk_ignores_serial_copies() {
        let about = Subject::new("GPU0", "cuda");
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
        assert_eq!(best(&results, Direction::FromGpu), Some(3));
        assert_eq!(best(&results[..1], Direction::FromGpu), None);
    }
}
