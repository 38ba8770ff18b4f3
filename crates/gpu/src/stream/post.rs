//! The kernel of `post.ptx`: it builds mlx5 WQEs in send queues, rings the doorbells and polls the completion queues itself.
//!
//! Its caller knows the queues; nothing here is checked against a NIC.

use std::time::Duration;

use super::Stream;
use crate::backend::{Kernel, Work};
use crate::memory::{Held, Memory, aligned, check_range};
use crate::{Allocation, DeviceMemory, DevicePtr, Error, HostMemory};

/// Memory that a kernel accesses by its address. It stays alive as long as this.
#[derive(Debug, Clone)]
pub struct DeviceRange {
    address: DevicePtr,
    bytes: usize,
    held: Held,
}

impl DeviceRange {
    /// `bytes` bytes at an offset.
    ///
    /// # Errors
    ///
    /// [`Error::Range`], [`Error::Pageable`].
    pub fn new(memory: &impl Memory, offset: usize, bytes: usize) -> Result<Self, Error> {
        Ok(Self { address: memory.range(offset, bytes)?, bytes, held: memory.held() })
    }

    fn at(&self, need: usize, alignment: usize) -> Result<u64, Error> {
        check_range(0, need, self.bytes)?;
        aligned(self.address.get(), alignment)?;
        Ok(self.address.get())
    }
}

/// The send side of an mlx5 queue pair, which nothing but the kernel drives. All of its CQEs come from signalled requests.
#[derive(Debug, Clone)]
pub struct DeviceQueue {
    /// The send queue: blocks of 64 bytes, a power of two.
    pub ring: DeviceRange,
    /// The doorbell record, 4 bytes. `None` for a NIC that needs none.
    pub record: Option<DeviceRange>,
    /// The doorbell register: 8 bytes, or two BlueFlame buffers.
    pub register: DeviceRange,
    /// Bytes of a BlueFlame buffer, to which a WQE that fits is copied. 0 rings with 8 bytes.
    pub flame: u32,
    /// CQEs of 64 bytes, a power of two.
    pub completions: DeviceRange,
    /// The doorbell record of the CQEs, 4 bytes. `None` keeps the NIC from knowing that they were polled.
    pub completion_record: Option<DeviceRange>,
    /// The QPN.
    pub qpn: u32,
    /// Blocks posted before, modulo 2^16, all of them complete.
    pub posted: u32,
    /// CQEs polled before.
    pub polled: u32,
    /// What is posted, again and again. The last request of each batch is signalled, and no other.
    pub requests: Vec<DeviceRequest>,
}

/// A request, of which the kernel builds a WQE.
#[derive(Debug, Clone)]
pub struct DeviceRequest {
    /// `MLX5_OPCODE_…`.
    pub opcode: u8,
    /// `fm_ce_se`: fence, completion and event flags.
    pub flags: u8,
    /// Immediate data.
    pub immediate: u32,
    /// Remote address and rkey.
    pub remote: Option<(u64, u32)>,
    /// Swap value or summand, and value to compare.
    pub atomic: Option<(u64, u64)>,
    /// The address of a datagram, as in a WQE.
    pub datagram: Option<[u8; 48]>,
    /// The local data.
    pub payload: DevicePayload,
    /// A message that the kernel writes before each post.
    pub source: Option<DeviceRange>,
    /// Where the message arrives: the kernel compares it after the CQE.
    pub destination: Option<DeviceRange>,
}

/// Local data of a request.
#[derive(Debug, Clone)]
pub enum DevicePayload {
    /// Address, length and lkey of registered memory. Segments of 0 bytes are left out.
    Segments(Vec<(u64, u32, u32)>),
    /// Bytes that the kernel copies into the WQE.
    Inline(DeviceRange),
}

/// Batches of [`Stream::post`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batches {
    /// Number of batches.
    pub rounds: u32,
    /// Requests per batch, for one doorbell: a divisor of each queue's number of requests.
    pub batch: u32,
    /// Batches in flight beyond the oldest one.
    pub ahead: u32,
    /// 32-bit words per message that are written and compared; 0: none.
    pub words: u32,
    /// Threads per queue, 1 to 1024.
    pub threads: u32,
    /// The longest wait for a CQE.
    pub timeout: Duration,
}

/// Word `k` of message `number`, as the kernel writes it.
#[must_use]
pub fn message_word(number: u32, k: u32) -> u32 {
    let base = number.wrapping_add(1).wrapping_mul(0x9e37_79b9);
    base.wrapping_add(k.wrapping_mul(0x85eb_ca6b))
}

/// Queues and requests in memory, for [`Stream::post`]. They count on from post to post.
#[derive(Debug)]
pub struct Posting {
    queues: HostMemory,
    requests: Vec<usize>,
    held: Vec<Held>,
}

/// What a queue's block of threads has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// How it ended.
    pub end: PostEnd,
    /// Batches whose CQE has come.
    pub batches: u32,
    /// Number of the next message.
    pub next: u32,
    /// Wrong words, and the first message that has some.
    pub wrong: Option<(u32, u32)>,
    /// From begin to end, by the GPU's clock.
    pub time: Duration,
    /// When it began, by the same clock.
    pub begun: Duration,
}

/// How a block of threads ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostEnd {
    /// All batches are complete.
    Done,
    /// No CQE came within the timeout.
    Late,
    /// A CQE with an error.
    Failed {
        /// The syndrome.
        syndrome: u8,
        /// The vendor's syndrome.
        vendor: u8,
    },
    /// A batch has more blocks than the queue.
    Full {
        /// Blocks of the batch.
        need: u32,
    },
    /// The CQE of another WQE.
    Other {
        /// Its counter.
        counter: u16,
    },
}

/// Bytes of a queue and of a request in post.ptx.
const QUEUE: usize = 256;
const REQUEST: usize = 128;
const BLOCK: usize = 64;

impl Stream {
    /// Copies queues and their requests to memory for the kernel, and waits for that. Batches have `batch` requests, and messages `words`
    /// words of 32 bits.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] for memory that is too small, a size that is not a power of two, or not whole batches; [`Error::Misaligned`];
    /// [`Error::Allocate`], [`Error::Copy`], [`Error::Abandoned`].
    pub fn load_queues(&self, queues: &[DeviceQueue], batches: Batches) -> Result<Posting, Error> {
        let state = self.gpu.pinned((queues.len() * QUEUE).max(QUEUE))?;
        let mut held = vec![state.held()];
        for (position, queue) in queues.iter().enumerate() {
            let list = self.load_requests(queue, batches, &mut held)?;
            let words = queue_words(queue, list.address(), &mut held)?;
            held.push(list.held());
            for (word, value) in words.into_iter().enumerate() {
                state.store_u64(position * QUEUE + word * 8, value)?;
            }
        }
        let requests = queues.iter().map(|queue| queue.requests.len()).collect();
        Ok(Posting { queues: state, requests, held })
    }

    fn load_requests(
        &self,
        queue: &DeviceQueue,
        batches: Batches,
        held: &mut Vec<Held>,
    ) -> Result<DeviceMemory, Error> {
        whole_batches(queue.requests.len(), batches.batch)?;
        let segments = |request: &DeviceRequest| match &request.payload {
            DevicePayload::Segments(segments) => segments.len() * 16,
            DevicePayload::Inline(_) => 0,
        };
        let head = queue.requests.len() * REQUEST;
        let total = head + queue.requests.iter().map(segments).sum::<usize>();
        let list = self.gpu.allocate(Allocation::Malloc, total)?;
        let mut bytes = Vec::with_capacity(total);
        let mut tail = Vec::new();
        let mut offset = 0;
        for (position, request) in queue.requests.iter().enumerate() {
            if position.is_multiple_of(batches.batch as usize) {
                offset = 0;
            }
            let payload = match &request.payload {
                DevicePayload::Segments(segments) => {
                    let at = list.address().offset((head + tail.len()) as u64).get();
                    for (address, length, key) in segments {
                        tail.extend(address.to_le_bytes());
                        tail.extend(length.to_le_bytes());
                        tail.extend(key.to_le_bytes());
                    }
                    (at, segments.len() as u32)
                }
                DevicePayload::Inline(range) => {
                    held.push(range.held.clone());
                    (range.at(range.bytes, 1)?, range.bytes as u32)
                }
            };
            let blocks = request.blocks();
            bytes.extend(request.encode((offset, blocks), payload, batches.words, held)?);
            offset += blocks;
        }
        bytes.extend(tail);
        self.write(&list, 0, &bytes)?;
        Ok(list)
    }

    /// Launches the kernel with a block of threads for each queue. [`Posting::outcome`] says what it did.
    ///
    /// # Errors
    ///
    /// [`Error::Range`] if the batches are not those of [`Self::load_queues`]; [`Error::Block`] for more queues than multiprocessors;
    /// [`Error::Kernel`], [`Error::Abandoned`].
    pub fn post(&self, posting: &Posting, batches: Batches) -> Result<(), Error> {
        let count = posting.requests.len();
        let multiprocessors = self.gpu.multiprocessors()?;
        if count > multiprocessors as usize {
            return Err(Error::Block { block: count as u32 - 1, multiprocessors });
        }
        for (position, requests) in posting.requests.iter().enumerate() {
            whole_batches(*requests, batches.batch)?;
            posting.queues.store_u64(position * QUEUE + STATUS * 8, 0)?;
        }
        let kernel = Kernel::Post {
            queues: posting.queues.range(0, count * QUEUE)?,
            count: count as u32,
            batches,
        };
        self.launch(&posting.held, Work::Launch(kernel))
    }
}

/// Words of a queue.
const STATUS: usize = 15;

impl Posting {
    /// What the block of a queue did in the last [`Stream::post`], which has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Finding`] if it has not ended, or its result was lost.
    pub fn outcome(&self, queue: usize) -> Result<Posted, Error> {
        let word = |index: usize| self.queues.load_u64(queue * QUEUE + index * 8);
        let (status, detail) = (word(STATUS)?, word(17)?);
        let end = match status {
            1 => PostEnd::Done,
            2 => PostEnd::Late,
            3 => PostEnd::Failed {
                // Bytes 52 to 55 of the CQE: the vendor's syndrome is byte 54.
                vendor: (detail >> 16) as u8,
                syndrome: (detail >> 24) as u8,
            },
            4 => PostEnd::Full { need: detail as u32 },
            5 => PostEnd::Other { counter: detail as u16 },
            count => {
                return Err(Error::Finding {
                    count,
                    position: queue as u64,
                    words: self.requests.len() as u64,
                });
            }
        };
        let (wrong, first) = (word(18)? as u32, word(19)? as u32);
        let (begun, ended) = (word(20)?, word(21)?);
        Ok(Posted {
            end,
            batches: word(16)? as u32,
            next: word(13)? as u32,
            wrong: (wrong > 0).then_some((wrong, first)),
            time: Duration::from_nanos(ended.saturating_sub(begun)),
            begun: Duration::from_nanos(begun),
        })
    }
}

fn whole_batches(requests: usize, batch: u32) -> Result<(), Error> {
    if requests > 0 && requests.checked_rem(batch as usize) == Some(0) {
        Ok(())
    } else {
        Err(Error::Range { offset: 0, bytes: batch as usize, size: requests })
    }
}

/// The words of a queue that the kernel reads.
fn queue_words(
    queue: &DeviceQueue,
    list: DevicePtr,
    held: &mut Vec<Held>,
) -> Result<[u64; 13], Error> {
    let power = |bytes: usize| {
        let valid = bytes.is_power_of_two() && bytes >= BLOCK;
        valid.then_some(bytes as u64).ok_or(Error::Range {
            offset: 0,
            bytes,
            size: bytes.next_power_of_two(),
        })
    };
    let optional = |range: &Option<DeviceRange>| match range {
        None => Ok(0),
        Some(range) => range.at(4, 4),
    };
    let ring = power(queue.ring.bytes)?;
    let cqes = power(queue.completions.bytes)? / BLOCK as u64;
    let register = match queue.flame {
        0 => queue.register.at(8, 8)?,
        flame => queue.register.at(2 * flame as usize, 16)?,
    };
    let ranges = [&queue.ring, &queue.register, &queue.completions];
    let records = [&queue.record, &queue.completion_record];
    let records = records.into_iter().flatten();
    held.extend(ranges.into_iter().chain(records).map(|range| range.held.clone()));
    Ok([
        queue.ring.at(BLOCK, BLOCK)?,
        ring - 1,
        optional(&queue.record)?,
        register,
        queue.completions.at(BLOCK, BLOCK)?,
        cqes - 1,
        optional(&queue.completion_record)?,
        queue.qpn.into(),
        queue.flame.into(),
        list.get(),
        queue.requests.len() as u64,
        queue.posted.into(),
        queue.polled.into(),
    ])
}

impl DeviceRequest {
    /// Blocks of its WQE.
    fn blocks(&self) -> u32 {
        let payload = match &self.payload {
            DevicePayload::Segments(segments) => {
                segments.iter().filter(|(_, length, _)| *length > 0).count()
            }
            DevicePayload::Inline(range) if range.bytes == 0 => 0,
            DevicePayload::Inline(range) => (4 + range.bytes).div_ceil(16),
        };
        let datagram = if self.datagram.is_some() { 3 } else { 0 };
        let others = usize::from(self.remote.is_some()) + usize::from(self.atomic.is_some());
        (1 + datagram + others + payload).div_ceil(BLOCK / 16) as u32
    }

    /// Its 128 bytes; (offset, blocks) is its place in the batch, and the payload its address and count.
    fn encode(
        &self,
        (offset, blocks): (u32, u32),
        (payload, count): (u64, u32),
        words: u32,
        held: &mut Vec<Held>,
    ) -> Result<[u8; REQUEST], Error> {
        let mut message = |range: &Option<DeviceRange>| match range {
            None => Ok(0),
            Some(range) => {
                held.push(range.held.clone());
                range.at(words as usize * 4, 4)
            }
        };
        let (source, destination) = (message(&self.source)?, message(&self.destination)?);
        let has = |set: bool, bit: u32| u32::from(set) << bit;
        let head = u32::from(self.opcode)
            | u32::from(self.flags) << 8
            | has(self.remote.is_some(), 16)
            | has(self.atomic.is_some(), 17)
            | has(matches!(self.payload, DevicePayload::Inline(_)), 18)
            | has(self.datagram.is_some(), 19);
        let (remote, rkey) = self.remote.unwrap_or_default();
        let (first, second) = self.atomic.unwrap_or_default();
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let mut bytes = [0; REQUEST];
        let words = [
            (0, pair(head, self.immediate)),
            (8, pair(offset, blocks)),
            (16, remote),
            (24, rkey.into()),
            (32, first),
            (40, second),
            (48, payload),
            (56, count.into()),
            (112, source),
            (120, destination),
        ];
        for (at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[64..112].copy_from_slice(&self.datagram.unwrap_or([0; 48]));
        Ok(bytes)
    }
}
