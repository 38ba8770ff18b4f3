//! GPU memory to GPU memory without GPUDirect RDMA: copies through pinned memory on both ends, in overlapping chunks. The difference
//! to the direct path is the gain of GPUDirect.

use std::collections::VecDeque;
use std::time::Instant;

use gdsync::wire::Operation;
use gpu::{DeviceMemory, Event, HostMemory, Stream};

use super::connected::{ConnectedQueuePair, PollTimer};
use super::control::{Control, Flow};
use super::end::End;
use super::memory_paths::{SLOTS, STAGING};
use super::queue_pair::Post;
use crate::probe::failure::StepError;

/// Fewest messages of a sample.
const BLOCK: usize = 4;
/// A chunk, or an empty message that frees its slot.
const SEND: Operation = Operation::Send { immediate: None };

/// The buffers and stream of one end.
struct Stage<'e> {
    host: &'e HostMemory,
    memory: &'e DeviceMemory,
    stream: &'e Stream,
    /// One for each slot.
    copied: Vec<Event>,
}

/// Offset and length of a chunk of a message.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    number: usize,
    offset: usize,
    bytes: usize,
}

impl Chunk {
    /// Chunk `number` of messages of `message` bytes.
    fn new(number: usize, message: usize, chunk: usize) -> Self {
        let offset = number % chunks(message, chunk) * chunk;
        Self { number, offset, bytes: chunk.min(message - offset) }
    }
}

fn chunks(message: usize, chunk: usize) -> usize {
    message.div_ceil(chunk).max(1)
}

/// Chunks in flight: as many as the buffer holds.
fn slots(chunk: usize) -> usize {
    (STAGING / chunk.max(1)).clamp(1, SLOTS)
}

/// True if the buffer holds two chunks of this size, so that copies overlap.
pub fn is_possible(chunk: usize) -> bool {
    (1..=STAGING / 2).contains(&chunk)
}

impl<'e> Stage<'e> {
    fn new(end: &'e End) -> Result<Self, StepError> {
        let (Some(host), Some((memory, stream))) = (&end.selection.pinned, end.store.device())
        else {
            return Err(StepError::OutOfStep);
        };
        let copied: Result<Vec<Event>, _> = (0..SLOTS).map(|_| memory.gpu().event()).collect();
        Ok(Self { host, memory, stream, copied: copied? })
    }
}

/// Posts the receive buffer of a slot.
fn expect(connected: &mut ConnectedQueuePair, slot: usize, chunk: usize) -> Result<(), StepError> {
    connected.receive(slot as u64, slot * chunk, chunk)
}

/// Sends the messages chunk by chunk: each is copied to a slot of pinned memory and sent; the receiver frees the slot. Returns
/// seconds for one message, a sample for a few of them.
pub fn send(
    end: &End,
    connected: &mut ConnectedQueuePair,
    flow: Flow,
    control: &mut Control,
) -> Result<Vec<f64>, StepError> {
    let stage = Stage::new(end)?;
    let (each, slots) = (chunks(flow.bytes, flow.chunk), slots(flow.chunk));
    let total = each * flow.count as usize;
    // Empty messages, which free slots.
    for _ in 0..slots.min(total) {
        connected.receive(0, 0, 0)?;
    }
    let mut copying = VecDeque::new();
    let (mut begun, mut sent, mut freed) = (0, 0, 0);
    let mut marks = Vec::new();
    let mut timer = PollTimer::new(end.timeout);
    while freed < total || sent < total {
        let mut any = false;
        // With a depth of one a message waits until the one before has arrived.
        let limit = match flow.depth {
            1 => (freed / each + 1) * each,
            _ => total,
        };
        while begun < limit && begun - freed < slots {
            let chunk = Chunk::new(begun, flow.bytes, flow.chunk);
            let Chunk { offset, bytes, .. } = chunk;
            stage.stream.download(
                stage.host,
                chunk.number % slots * flow.chunk,
                stage.memory,
                offset,
                bytes,
            )?;
            stage.stream.record(&stage.copied[chunk.number % slots])?;
            copying.push_back(chunk);
            begun += 1;
        }
        while let Some(chunk) = copying.front().copied() {
            if !stage.copied[chunk.number % slots].is_done()? {
                break;
            }
            copying.pop_front();
            connected.send(&Post::new(SEND, chunk.number % slots * flow.chunk, chunk.bytes))?;
            any = true;
        }
        sent += connected.sent.poll()?.len();
        let received = connected.received.poll()?.len();
        for _ in 0..received {
            freed += 1;
            if freed + slots <= total {
                connected.receive(0, 0, 0)?;
            }
        }
        // Several may arrive at once: a sample covers all messages since the last one.
        let messages = freed / each;
        if marks.last().is_none_or(|(_, before)| messages >= before + BLOCK) {
            marks.push((Instant::now(), messages));
        }
        if any || received > 0 {
            timer = PollTimer::new(end.timeout)
        } else {
            timer.tick("a chunk to arrive", control)?
        }
    }
    let seconds = |pair: &[(Instant, usize)]| {
        let time = pair[1].0.duration_since(pair[0].0);
        time.as_secs_f64() / (pair[1].1 - pair[0].1) as f64
    };
    Ok(marks.windows(2).map(seconds).collect())
}

/// Posts the receiver's buffers.
pub fn prepare(connected: &mut ConnectedQueuePair, flow: Flow) -> Result<(), StepError> {
    let (each, slots) = (chunks(flow.bytes, flow.chunk), slots(flow.chunk));
    let total = each * flow.count as usize;
    (0..slots.min(total)).try_for_each(|slot| expect(connected, slot, flow.chunk))
}

/// Receives the messages: copies each chunk to GPU memory and frees its slot.
pub fn receive(
    end: &End,
    connected: &mut ConnectedQueuePair,
    flow: Flow,
    control: &mut Control,
) -> Result<(), StepError> {
    let stage = Stage::new(end)?;
    let (each, slots) = (chunks(flow.bytes, flow.chunk), slots(flow.chunk));
    let total = each * flow.count as usize;
    let mut copying = VecDeque::new();
    let (mut arrived, mut sent, mut freed) = (0, 0, 0);
    let mut timer = PollTimer::new(end.timeout);
    while freed < total || sent < total {
        let received = connected.received.poll()?.len();
        for _ in 0..received {
            // They arrive in the order in which they were sent, and take the slots in the order in which these were posted.
            let chunk = Chunk::new(arrived, flow.bytes, flow.chunk);
            let Chunk { offset, bytes, .. } = chunk;
            stage.stream.upload(
                stage.memory,
                offset,
                stage.host,
                chunk.number % slots * flow.chunk,
                bytes,
            )?;
            stage.stream.record(&stage.copied[chunk.number % slots])?;
            copying.push_back(chunk);
            arrived += 1;
        }
        let mut any = received > 0;
        while let Some(chunk) = copying.front().copied() {
            if !stage.copied[chunk.number % slots].is_done()? {
                break;
            }
            copying.pop_front();
            freed += 1;
            // Its buffer is posted before the other end may send again.
            if freed + slots <= total {
                expect(connected, chunk.number % slots, flow.chunk)?;
            }
            connected.send(&Post::new(SEND, 0, 0))?;
            any = true;
        }
        sent += connected.sent.poll()?.len();
        if any {
            timer = PollTimer::new(end.timeout)
        } else {
            timer.tick("a chunk of the remote end", control)?
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_messages() {
        const CHUNK: usize = 512 << 10;
        let message = 2 * CHUNK + 8;
        assert_eq!([1, CHUNK, CHUNK + 1, message].map(|bytes| chunks(bytes, CHUNK)), [1, 1, 2, 3]);
        let places: Vec<_> = (0..4)
            .map(|number| Chunk::new(number, message, CHUNK))
            .map(|chunk| (chunk.offset, chunk.bytes))
            .collect();
        assert_eq!(places, [(0, CHUNK), (CHUNK, CHUNK), (2 * CHUNK, 8), (0, CHUNK)]);
        assert_eq!([64 << 10, CHUNK, 2 << 20].map(slots), [8, 8, 2]);
        assert_eq!([0, 1, 2 << 20, 4 << 20].map(is_possible), [false, true, true, false]);
    }
}
